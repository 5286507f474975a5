"""The notebooks of a learner's JupyterLab: those that are as the course handed them out are trusted."""

import hashlib
import json
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from onnxlab.course.learner_folder import HANDED_OUT


class HandedOutContents(AsyncLargeFileManager):  # type: ignore[misc]  # jupyter_server's traits have no types
    """Jupyter's files, without its warning of untrusted cells in the course's own notebooks."""

    def mark_trusted_cells(self, nb: Any, path: str = "") -> None:  # noqa: ANN401 - nbformat has no types
        """Trust a notebook that is exactly as it was handed out."""
        if self._is_as_handed_out(path.lstrip("/")):
            self.notary.sign(nb)
        super().mark_trusted_cells(nb, path)

    def _is_as_handed_out(self, path: str) -> bool:
        home = Path(self.root_dir)
        try:
            digests = json.loads((home / HANDED_OUT).read_text("utf-8"))
            return bool(hashlib.sha256((home / path).read_bytes()).hexdigest() == digests.get(path))
        except (OSError, ValueError, AttributeError):
            return False
