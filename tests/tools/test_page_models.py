"""The models in the web site's pages are what their chapters export today."""

import json
import tomllib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tools import page_models

ROOT = Path(__file__).parents[2]
PAGES = [row["page"] for row in page_models.rows()]


def test_each_model_stands_after_a_cell_of_its_chapter_in_both_languages():
    for row in tomllib.loads((ROOT / "site" / "models.toml").read_text("utf-8"))["model"]:
        for folder in ("notebooks/", "notebooks/zh/"):
            chapter = ROOT / f"{row['page'].replace('notebooks/', folder)}.ipynb"
            names = [cell["id"] for cell in json.loads(chapter.read_text("utf-8"))["cells"]]
            assert row["after"] in names, row


def test_no_model_names_a_file_of_this_machine():
    for path in page_models.FOLDER.glob("*.onnx"):
        assert b".py" not in path.read_bytes(), path
        onnx.checker.check_model(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [PAGES[2], *(pytest.param(page, marks=pytest.mark.release) for page in PAGES if page != PAGES[2])]
)
def test_the_models_are_what_the_chapter_exports(page, tmp_path):
    row = next(row for row in page_models.rows() if row["page"] == page)
    page_models.write(row, tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(name for name in made if f'"{name}"' in row["keep"] or "{name}" in row["keep"])
    for name in made:
        kept, new = page_models.FOLDER / name, tmp_path / name
        if new.suffix == ".json":
            assert json.loads(new.read_text()) == json.loads(kept.read_text())
            continue
        assert [node.op_type for node in onnx.load(new).graph.node] == [
            node.op_type for node in onnx.load(kept).graph.node
        ], name
        feeds, outputs = {}, []
        for path in (kept, new):
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            for value in session.get_inputs():
                shape = [size if isinstance(size, int) else 4 for size in value.shape]
                kind = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(uint8)": np.uint8}
                feeds.setdefault(value.name, np.ones(shape, kind[value.type]))
            outputs.append(session.run(None, feeds))
        assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(*outputs, strict=True)), name
