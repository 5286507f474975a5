"""Chapters and labs for Colab, or any notebook server without the course: one more cell at the top.

The cell installs the package if it is missing and calls `complete_session`, so the cell itself stays short.
"""

import copy
import re
from typing import Any
from urllib.parse import urljoin

CELL = """\
# @title {title}
import importlib, subprocess, sys
from importlib.util import find_spec

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    raise RuntimeError("ONNX Lab needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0])
if find_spec("onnxlab") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", {source!r}], check=True)
    importlib.invalidate_caches()
from onnxlab.course.colab import complete_session

complete_session({language!r})
"""
"""The first cell. `title` is what Colab shows in place of the code, `source` where pip gets the course."""

_TITLES = {
    "en": "First run this cell: it installs the course (the first time it takes some minutes)",
    "zh": "\u8bf7\u5148\u8fd0\u884c\u8fd9\u4e2a\u5355\u5143\u683c\uff1a"
    "\u5b83\u4f1a\u5b89\u88c5\u672c\u8bfe\u7a0b\uff08\u7b2c\u4e00\u6b21\u9700\u8981\u51e0\u5206\u949f\uff09",
}
_LINK = re.compile(r"\]\(([^():\s]+\.(?:ipynb|md)(?:#[^()\s]*)?)\)")


def colab_edition(
    notebook: dict[str, Any], source: str, *, language: str = "en", address: str = ""
) -> dict[str, Any]:
    """Return a notebook with the cell in front that makes it run where the course is not installed.

    Args:
        notebook: A chapter or a lab, as nbformat reads it. It is not changed.
        source: Where pip installs the course from: a wheel's address or path, or
            "onnxlab @ git+https://host/owner/name".
        language: The notebook's.
        address: The notebook's address on the web, which its relative links are then resolved against: the
            copy that Colab opens is alone. Empty: links stay as they are.

    Example:
        >>> import nbformat
        >>> edition = colab_edition(nbformat.v4.new_notebook(), "onnxlab-0.1.0-py3-none-any.whl")
        >>> print(edition["cells"][0]["source"].splitlines()[0])
        # @title First run this cell: it installs the course (the first time it takes some minutes)
    """
    from nbformat.v4 import new_code_cell  # not needed in the session that the cell prepares

    result = copy.deepcopy(notebook)
    for cell in result["cells"]:
        if address and cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(lambda link: f"]({urljoin(address, link[1])})", cell["source"])
    code = CELL.format(title=_TITLES[language], source=source, language=language)
    # Folded: Colab shows the title, JupyterLab three dots.
    folded = {"cellView": "form", "jupyter": {"source_hidden": True}}
    result["cells"].insert(0, new_code_cell(code.rstrip("\n"), id="onnxlab-setup", metadata=folded))
    return result
