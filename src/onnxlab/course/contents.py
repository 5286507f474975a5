"""The notebooks of a learner's JupyterLab: what the course ships is trusted, and to open it changes nothing.

`course.py` and a class's servers name it to Jupyter; in a clone, what git has committed is the course's, too.
"""

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from onnxlab.course.learner_folder import HANDED_OUT

ROOT = Path(__file__).resolve().parents[3]


class CourseContents(AsyncLargeFileManager):  # type: ignore[misc]  # jupyter_server's traits have no types
    """Jupyter's files with two differences when a notebook is opened."""

    def mark_trusted_cells(self, nb: Any, path: str = "") -> None:  # noqa: ANN401 - nbformat has no types
        """Trust a notebook that is exactly as it was committed or handed out; fill in the kernel's metadata.

        An untrusted notebook's saved tables have no styles. The metadata JupyterLab would fill in itself, and
        that counts as a change to be saved.
        """
        if _is_the_courses(Path(self._get_os_path(path)), Path(self.root_dir)):
            self.notary.sign(nb)
        super().mark_trusted_cells(nb, path)
        kernel = nb.metadata.get("kernelspec", {}).get("name")
        if kernel == "python3":
            spec = self.parent.kernel_spec_manager.get_kernel_spec(kernel)
            nb.metadata.kernelspec = {
                "name": kernel,
                "display_name": spec.display_name,
                "language": spec.language,
            }
            nb.metadata.language_info = IPythonKernel.language_info


def _is_the_courses(path: Path, folder: Path) -> bool:
    """Tell whether a file is exactly as the course handed it out into a learner's folder, or as committed."""
    data = path.read_bytes()
    try:
        handed_out = json.loads((folder / HANDED_OUT).read_text("utf-8"))
        if hashlib.sha256(data).hexdigest() == handed_out.get(path.relative_to(folder).as_posix()):
            return True
    except (OSError, ValueError, AttributeError):
        pass
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() in _committed()


@cache
def _committed() -> frozenset[str]:
    """The names that git gives to the contents of all committed notebooks; none without git."""
    command = ["git", "-C", str(ROOT), "ls-tree", "-r", "HEAD", "notebooks", "labs", "solutions"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return frozenset()
    return frozenset(line.split()[2] for line in listed.splitlines())
