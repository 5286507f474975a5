#!/usr/bin/env python3
"""ONNX Lab's commands. Nothing has to be installed before; Python's standard library is enough.

    python3 course.py          start the course (makes .venv and installs what is missing)
    python3 course.py test     run every test; with --fast, the quick ones
    python3 course.py class    serve a class from this machine
    python3 course.py --help   what else can be said

This file only checks that the Python that runs it is suitable. Everything else is in starter/. It is
written so that any Python since 2.7 can parse it: an old one must get a message, not a SyntaxError.
"""

import os
import platform
import subprocess
import sys

OLDEST = (3, 11)
NEWEST = (3, 13)


def runs(name):
    """Tell whether a Python of this name is on the machine and starts."""
    try:
        with open(os.devnull, "w") as nowhere:
            return subprocess.call([name, "-c", "pass"], stdout=nowhere, stderr=nowhere) == 0
    except OSError:
        return False


def unsuitable(version, is_64_bit=True, machine="", runs=runs):
    """Return why a Python is not suitable and what to use instead; "" if it is suitable.

    Args:
        version: Its major and minor version.
        is_64_bit: Whether it is a 64-bit build.
        machine: System and processor, as "Darwin x86_64".
        runs: Tells whether a command starts.
    """
    have = "%d.%d" % version
    span = "%d.%d to %d.%d" % (OLDEST + NEWEST)
    if version < OLDEST:
        what = "This is Python %s, which is too old for the course." % have
        why = "PyTorch and ONNX need Python %s." % span
    elif version > NEWEST:
        what = "This is Python %s, which is newer than the course." % have
        why = "It is tested with Python %s; the packages it pins may not exist for a newer one." % span
    elif not is_64_bit:
        what = "This is a 32-bit Python."
        why = "PyTorch exists for 64-bit Python only."
    elif machine == "Darwin x86_64":
        what = "This is a Python for Intel Macs."
        why = "PyTorch exists for Macs with Apple silicon only; on one, take the native Python."
    else:
        return ""
    then = "Install Python %d.%d (64 bit), from python.org for instance, and run this again." % NEWEST
    if not OLDEST <= version <= NEWEST:
        for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
            if runs("python3.%d" % minor):
                then = "This machine has one that will do. Run: python3.%d course.py" % minor
                break
    return "\n".join([what, why, then])


def shown(message, arguments):
    """Return a message in the language of the arguments, where this Python can read the translations."""
    try:
        from starter.console import chosen_language, speak, tr

        speak(chosen_language(arguments)[0])
        return tr(message)
    except Exception:  # this Python is not suitable, after all
        return message


def main(arguments):
    """Check this Python, then run the command; return the exit code."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    machine = "%s %s" % (platform.system(), platform.machine())
    message = unsuitable(tuple(sys.version_info[:2]), sys.maxsize > 2**32, machine)
    if message:
        sys.stderr.write(shown(message, arguments) + "\n")
        return 1
    from starter.commands import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
