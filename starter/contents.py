"""The notebooks of the course's JupyterLab: what the course ships is trusted, and to open it changes nothing.

JupyterLab imports this in the environment, from the repository's folder; see `jupyter.command`.
"""

import hashlib
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

ROOT = Path(__file__).resolve().parents[1]


class CourseContents(AsyncLargeFileManager):  # type: ignore[misc]  # jupyter_server's traits have no types
    """Jupyter's files with two differences when a notebook is opened."""

    def mark_trusted_cells(self, nb: Any, path: str = "") -> None:  # noqa: ANN401 - nbformat has no types
        """Trust a notebook that is exactly a committed one, and fill in the kernel's metadata.

        An untrusted notebook's saved tables have no styles. The metadata JupyterLab would fill in itself, and
        that counts as a change to be saved.
        """
        if _blob(Path(self._get_os_path(path))) in _committed():
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


@cache
def _committed() -> frozenset[str]:
    """The object names of all committed notebooks; none without git."""
    command = ["git", "-C", str(ROOT), "ls-tree", "-r", "HEAD", "notebooks", "labs", "solutions"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return frozenset()
    return frozenset(line.split()[2] for line in listed.splitlines())


def _blob(path: Path) -> str:
    """The name that git gives to a file's content."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
