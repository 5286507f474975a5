"""The filter's tables of system calls, compared with the lists that come with Linux's headers."""

import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnxlab_class.sandbox import seccomp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="system calls are Linux's")
HEADERS = {
    "x86_64": ("x86_64-linux-gnu/asm/unistd_64.h", "asm/unistd_64.h"),
    "aarch64": ("asm-generic/unistd.h",),
}
# aarch64 has none of the calls with 64-bit times for 32-bit processors; the other two are no calls.
NOT_ON_AARCH64 = {*range(403, 424), 244} | {84}  # 84 stands twice, as sync_file_range and sync_file_range2
RULES = (*seccomp._ALWAYS, *seccomp._UNSTOPPABLE, *seccomp._SAME_USER)


def calls(processor: str) -> dict[int, str]:
    """The names of a processor's system calls by their numbers, as this machine's headers list them."""
    for name in HEADERS[processor]:
        header = Path("/usr/include", name)
        if header.exists():
            lines = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
            names = {int(number): name for name, number in lines}
            assert len(names) > 250
            return names
    pytest.skip("this machine has no headers of Linux (linux-libc-dev)")


@pytest.mark.parametrize("processor", seccomp.PROCESSORS)
def test_every_call_of_this_systems_list_is_classified(processor: str) -> None:
    """Fails once the headers have a call that nobody has looked at: classify it, then raise NEXT_CALL."""
    unknown = {
        number: name
        for number, name in calls(processor).items()
        if any(number in numbers for numbers in seccomp.UNKNOWN[processor])
        and not (processor == "aarch64" and number in NOT_ON_AARCH64)
    }
    assert unknown == {}


def test_both_numbers_of_a_rule_are_the_same_call() -> None:
    here, there = calls("x86_64"), calls("aarch64")
    pairs = {pair for rule in RULES for pair in rule.calls}
    numbers = [(one, other) for one, other in pairs if one is not None and other is not None]
    names = [(here[one], there[other]) for one, other in numbers if one in here and other in there]
    assert len(names) > 60
    assert [pair for pair in names if pair[0] != pair[1]] == []


CALL = """
import ctypes, json, os, sys
from onnxlab_class.sandbox import seccomp
from onnxlab_class.sandbox.users import no_new_privileges
number, next_call = int(sys.argv[1]), int(sys.argv[2])
seccomp.UNKNOWN = {name: (range(next_call, 2**32 - 1),) for name in seccomp.PROCESSORS}
no_new_privileges()
seccomp.install([])
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(ctypes.c_long(number), 0, 0, 0)
os.write(1, json.dumps([result, ctypes.get_errno()]).encode())
os._exit(0)
"""


@pytest.mark.skipif(seccomp.processor() not in seccomp.PROCESSORS, reason="no filter for this processor")
@pytest.mark.parametrize(("next_call", "refused"), [(434, True), (435, False)])
def test_a_call_that_is_not_classified_is_refused(next_call: int, refused: bool) -> None:
    """pidfd_open as the first call that nobody has looked at, and as the last that somebody has."""
    command = [sys.executable, "-P", "-c", CALL, "434", str(next_call)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result, error = json.loads(done.stdout)
    assert result == -1
    assert error == (errno.ENOSYS if refused else errno.EINVAL)  # there is no process 0
