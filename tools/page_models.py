"""Write the models that the web site's pages run, each as its chapter exports it.

    python -m tools.page_models [FOLDER] [--only 04b]

site/models.toml says which chapters, and what of each. A chapter is run up to a cell, as in JupyterLab; then
its own files are copied, without the paths of source files. Takes about a minute.
"""

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "site" / "models.toml"
FOLDER = ROOT / "site" / "models"
_BEFORE = """from onnxlab.exporters.export import remembered_torchlib
_torchlib = remembered_torchlib()
_torchlib.__enter__()  # half the time
"""
_KEPT = '''
import json as _json
from pathlib import Path as _Path
import onnx as _onnx
from onnxlab.model.load import strip_origins as _strip

def kept(name, content):
    """Write a model, the path of one, or data for JSON."""
    if name.endswith(".json"):
        _Path({folder!r}, name).write_text(_json.dumps(content), "utf-8")
        return
    model = content if isinstance(content, _onnx.ModelProto) else _onnx.load(content)
    _strip(model)
    _Path({folder!r}, name).write_bytes(model.SerializeToString(deterministic=True))
'''


def rows() -> list[dict[str, Any]]:
    """Return the rows of site/models.toml that make files."""
    return [row for row in tomllib.loads(TABLE.read_text("utf-8"))["model"] if "keep" in row]


def write(row: dict[str, Any], folder: Path) -> None:
    """Run a chapter up to the cell `ran` of its row, then its `keep`; write the files into a folder."""
    chapter = nbformat.read(ROOT / f"{row['page']}.ipynb", as_version=4)
    last = next(number for number, cell in enumerate(chapter.cells) if cell.id == row["ran"])
    cells = [cell for cell in chapter.cells[: last + 1] if cell.cell_type == "code"]
    program = _KEPT.format(folder=str(folder)) + row["keep"]
    chapter.cells = [nbformat.v4.new_code_cell(_BEFORE), *cells, nbformat.v4.new_code_cell(program)]
    with tempfile.TemporaryDirectory() as place:
        NotebookClient(chapter, timeout=300, resources={"metadata": {"path": place}}).execute()


def main(arguments: list[str] | None = None) -> int:
    """Write all models, or those of one chapter."""
    parser = argparse.ArgumentParser(description="Write the models that the web site's pages run.")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--only", default="", help="a part of the chapter's name, as 04b")
    options = parser.parse_args(arguments)
    chosen = [row for row in rows() if options.only in row["page"]]
    if not chosen or not options.folder.is_dir():
        parser.error(f"no chapter is named {options.only}, or there is no folder {options.folder}")
    for row in chosen:
        print(f"{row['page']} ...", flush=True)
        write(row, options.folder.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
