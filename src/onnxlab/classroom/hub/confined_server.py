"""A learner's server as a command: it confines itself, brings the home up to date, becomes JupyterLab.

`python -m onnxlab.classroom.hub.confined_server CONFINEMENT HANDED_OUT [options of jupyterhub-singleuser]`
is started by the hub's spawner, as the hub's user. After `confine` it is the learner's, and nothing that the
hub's user had in memory is left: the single-user server is a program that replaces this one.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from onnxlab.classroom.hub.confinement import Confinement, confine
from onnxlab.classroom.hub.learner_folder import bring_up_to_date, handed_out
from onnxlab.errors import OnnxLabError
from onnxlab.sandbox.libc import LINUX, die_with_parent

__all__ = ["main"]


def main(arguments: list[str]) -> NoReturn:
    """Become the server."""
    confinement, course, *options = arguments
    confine(Confinement.from_json(Path(confinement).read_text("utf-8")))
    if LINUX:
        die_with_parent(signal.SIGTERM)  # not before: a change of user takes it away
    try:
        for line in bring_up_to_date(Path.cwd(), handed_out(Path(course))).lines():
            print(line, flush=True)
    except (
        OSError,
        OnnxLabError,
    ) as error:  # a full disk, or a file where a folder belongs: the server starts
        print(f"The course was not brought up to date: {error}", flush=True)
    # -P: no module is imported from the home.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterhub.singleuser", *options])


if __name__ == "__main__":
    main(sys.argv[1:])
