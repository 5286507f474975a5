"""Keeps the folder that `onnxlab` is started in off Python's path: a stranger's files may lie there.

It acts when it is imported, which the package does before anything else.
"""

import os
import sys


def started_as_command() -> bool:
    """Whether this process is the `onnxlab` command: its script, or `python -m onnxlab.cli`."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 - pathlib is not imported yet
    by_module = program == "-m" and any(word.endswith("onnxlab.cli") for word in sys.orig_argv)
    return by_module or program in ("onnxlab", "onnxlab.exe", "onnxlab-script.py")


def leave_folder() -> None:
    """Take off the path what `python -m` put there first, and what PYTHONPATH names relative to the folder.

    The processes that this one starts get a PYTHONPATH without such entries.
    """
    if sys.argv[0] == "-m" and not sys.flags.safe_path:
        del sys.path[0]
    if variable := os.environ.get("PYTHONPATH"):
        entries = variable.split(os.pathsep)
        kept = [entry for entry in entries if os.path.isabs(entry)]  # noqa: PTH117 - as above
        relative = {os.path.abspath(entry) for entry in entries if entry not in kept}  # noqa: PTH100 - as above
        sys.path[:] = [entry for entry in sys.path if entry not in relative or entry in kept]
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)


if started_as_command():
    leave_folder()
