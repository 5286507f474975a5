"""The picture in docs/how_it_works.md is the one that the imports give."""

from tools.package_picture import DOCUMENT, MARKED, draw


def test_the_picture_of_the_package_is_drawn_from_its_imports():
    shown = MARKED.search(DOCUMENT.read_text(encoding="utf-8"))
    assert shown
    assert shown[0] == draw(), "run: python tools/package_picture.py --write"
