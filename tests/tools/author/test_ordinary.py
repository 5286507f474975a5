"""docs/ordinary.md is in step with the table that the tests run by."""

from pathlib import Path

from tools.author.ordinary import page

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_shows_the_table():
    assert (ROOT / "docs" / "ordinary.md").read_text(encoding="utf-8") == page(ROOT)


def test_a_cell_tells_the_exporters_apart(tmp_path):
    (tmp_path / "tests" / "ordinary").mkdir(parents=True)
    table = """
    [models.images]
    unet = "U-Net"
    crop = "a crop"
    [export.refused]
    "no rule" = ["crop, TorchScript"]
    ["15 quantise".refused]
    "still in float32" = ["unet, TorchScript"]
    ["15 quantise".not_for]
    "only for networks" = ["crop"]
    """
    (tmp_path / "tests" / "ordinary" / "expected.toml").write_text(table, encoding="utf-8")
    text = page(tmp_path)
    assert "| U-Net | right / refused |" in text
    assert "| a crop | - |" in text
    assert "*still in float32*: unet, TorchScript" in text
