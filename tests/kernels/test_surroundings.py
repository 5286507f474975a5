"""The list of the variables that decide who shares a warm process is complete."""

import json
import os
import subprocess
import sys

import pytest

from onnxlab.kernels import surroundings

RECORD = """
import json, os, sys
asked = set()
kind = type(os.environ)
real = kind.__getitem__
def note(self, name):
    asked.add(os.fsdecode(name))
    return real(self, name)
kind.__getitem__ = note
from onnxlab.kernels.preloading import load
load()
print(json.dumps(sorted(asked)))
"""
NOT_FOR_LIBRARIES = {
    "ANDROID_DATA",  # a test for Android
    "IPYTHONENABLE",  # the debugger's own console
    "DISPLAY",  # whether the debugger has windows
    "JPY_INTERRUPT_EVENT",  # Windows
    "JPY_PARENT_PID",  # the fork has its own way
    "TERM",  # the title of a terminal's window; a kernel has none
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
def test_what_imports_read_is_on_the_list() -> None:
    few = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # networkx reads all
    done = subprocess.run([sys.executable, "-c", RECORD], capture_output=True, text=True, check=True, env=few)
    asked = dict.fromkeys(json.loads(done.stdout.splitlines()[-1]), "")
    known = surroundings.import_time(asked) | surroundings.personal(asked)
    assert set(asked) - set(known) - NOT_FOR_LIBRARIES == set()
    assert len(known) > 50  # they were recorded


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
@pytest.mark.parametrize(
    "name", ["PYTHONPATH", "OMP_NUM_THREADS", "LD_PRELOAD", "TORCH_LOGS", "ORT_DISABLE_TELEMETRY", "LANG"]
)
def test_each_decides_the_key(name: str) -> None:
    base = {"HOME": "/home/somebody", "EDITOR": "vi"}
    assert surroundings.key([], base) == surroundings.key([], base | {"EDITOR": "ed"})
    assert surroundings.key([], base) != surroundings.key([], base | {name: "1"})
    assert surroundings.key([], base) != surroundings.key(["-O"], base)
    assert surroundings.differing(base, base | {name: "1"}) == [name]
