"""Count the modules of onnxlab that a use of it enters, and the calls between them.

    python tools/module_calls.py     a table: graph(model), a failing check, onnxlab grade on one notebook

A package is easier to understand when following one use leads through few modules. Every process that a use
starts is counted: a profile function (`sys.setprofile`) notes each pair of modules the first time that code
of one calls code of the other. What happens while modules are imported is left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Every Python started with this folder on PYTHONPATH imports it first. A grader's workers inherit listed
# variables only, so the path of the file stands in the code. The file is opened before a sandbox closes the
# file system; a fork keeps it, and its number is above those that a child of the grader closes. O_APPEND
# keeps the lines of several processes apart.
PROFILER = """
import fcntl, os, resource, sys, threading
_MOST = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST, _MOST))
_OUT = fcntl.fcntl(os.open({calls!r}, os.O_WRONLY | os.O_APPEND), fcntl.F_DUPFD, 5000)
_SEEN = set()
def _profile(frame, event, argument):
    if event != "call":
        return
    name = frame.f_globals.get("__name__") or ""
    if not name.startswith("onnxlab") or frame.f_code.co_name == "<module>":
        return
    caller = frame.f_back
    while caller is not None and not (caller.f_globals.get("__name__") or "").startswith("onnxlab"):
        if caller.f_code.co_name == "_call_with_frames_removed":  # an import: decorators, dataclasses
            return
        caller = caller.f_back
    while caller is not None and caller.f_code.co_name in ("<genexpr>", "<listcomp>", "<dictcomp>"):
        caller = caller.f_back
    if caller is not None and caller.f_code.co_name == "<module>":
        return
    pair = ((caller.f_globals["__name__"] if caller else "-"), name)
    if pair not in _SEEN:
        _SEEN.add(pair)
        os.write(_OUT, f"{pair[0]} {pair[1]}\\n".encode())
sys.setprofile(_profile)
threading.setprofile(_profile)
"""

GRAPH = """
import onnx, onnxlab
from onnx import parser
text = '<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) { y = Abs (x) }'
model = parser.parse_model(text)
onnxlab.graph(model)
"""

CHECK = """
import onnxlab
onnxlab.check("asinh-symbolic", lambda g, x: g.op("Sinh", x))
"""

USES = {
    "graph(model)": ["-c", GRAPH],
    "a failing check": ["-c", CHECK],
    "onnxlab grade": ["-m", "onnxlab.cli", "grade", str(ROOT / "solutions" / "lab04_asinh.ipynb")],
}


def calls_of(arguments: list[str]) -> set[tuple[str, str]]:
    """Run a use; return the module that calls and the one that is called, "-" for outside of the course."""
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder, "calls")
        profiler = PROFILER.replace("{calls!r}", repr(str(calls)))
        Path(folder, "sitecustomize.py").write_text(profiler, encoding="utf-8")
        calls.touch()
        calls.chmod(0o666)  # a grader's processes run as other users
        Path(folder).chmod(0o755)
        if "grade" in arguments:
            arguments = [*arguments, "--out", str(Path(folder, "graded"))]
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{arguments[:3]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        pairs = (line.split() for line in calls.read_text(encoding="utf-8").splitlines())
        return {(caller, callee) for caller, callee in pairs}


def modules_in(calls: set[tuple[str, str]]) -> set[str]:
    """Return the modules of the course that calls lead through."""
    return {name for pair in calls for name in pair if name.startswith("onnxlab")}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    print(f"{'use':<18} {'modules':>8} {'calls between modules':>22}")
    for name, arguments in USES.items():
        calls = calls_of(arguments)
        between = sum(caller not in ("-", callee) for caller, callee in calls)
        print(f"{name:<18} {len(modules_in(calls)):>8} {between:>22}")


if __name__ == "__main__":
    main()
