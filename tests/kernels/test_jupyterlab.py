"""JupyterLab as `course.py --fast-kernels` starts it."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kernel_runs import WITHIN, wait_until, warm_processes

ROOT = Path(__file__).parents[2]
SERVE = """
import sys
from pathlib import Path
from starter.console import Progress
from starter.environment import Environment
from starter.jupyter import serve
with Progress() as progress:
    here = Environment(Path(sys.prefix), Path(sys.executable), ours=False)
    sys.exit(serve(here, ["--fast-kernels", "--no-browser"], progress))
"""
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only"),
    pytest.mark.slow,
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for all that is temporary, with a short name."""
    with tempfile.TemporaryDirectory(prefix="k-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def lab(place: Path) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """A running JupyterLab: its address, its token, and the command."""
    variables = {name: value for name, value in os.environ.items() if "JUPYTER" not in name}
    variables.pop("ONNXLAB_KERNELS_FOLDER", None)
    variables["TMPDIR"] = str(place)
    with subprocess.Popen(
        [sys.executable, "-u", "-c", SERVE], cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                if found := re.search(r"(http://\S+?/)lab/tree/\S+\?token=(\w+)", line):
                    yield found[1], found[2], process
                    break
        finally:
            if process.poll() is None:
                process.terminate()  # it ends its server; killed, it would leave it behind


def ask(lab: tuple[str, str, object], method: str, path: str) -> dict:
    request = urllib.request.Request(
        f"{lab[0]}api/{path}", method=method, headers={"Authorization": f"token {lab[1]}"}, data=b"{}"
    )
    with urllib.request.urlopen(request, timeout=WITHIN) as answer:
        return json.loads(answer.read() or b"{}")


def forks(warm: psutil.Process) -> list[int]:
    return [each.pid for each in warm.children() if each.status() != psutil.STATUS_ZOMBIE]


def test_kernels_are_forked_and_nothing_is_left(lab, place: Path) -> None:
    first, second = ask(lab, "POST", "kernels"), ask(lab, "POST", "kernels")
    [warm] = warm_processes(place)
    kernels = forks(warm)
    assert len(kernels) == 2

    ask(lab, "POST", f"kernels/{first['id']}/restart")
    wait_until(lambda: len(forks(warm)) == 2 and set(forks(warm)) != set(kernels), "one is another now")
    ask(lab, "POST", f"kernels/{second['id']}/interrupt")
    ask(lab, "DELETE", f"kernels/{second['id']}")
    wait_until(lambda: len(forks(warm)) == 1, "one is gone")
    psutil.Process(forks(warm)[0]).kill()
    wait_until(lambda: warm.children() and forks(warm), "Jupyter notices a death and starts it again")

    lab[2].send_signal(signal.SIGTERM)  # not Ctrl+C: it is ignored where the tests run in the background
    assert lab[2].wait(WITHIN) == 0
    wait_until(lambda: not warm.is_running(), "the warm process ends with JupyterLab")
