"""The whole of the course in another language: every catalogue, and what is made from them."""

from collections.abc import Iterator
from pathlib import Path

import polib

from onnxlab.authoring.notebooks import read
from onnxlab.authoring.translation.catalogue import (
    Source,
    merged,
    message_sources,
    notebook_sources,
    open_catalogue,
    shown_sources,
)

__all__ = ["catalogues"]


def catalogues(root: Path, language: str) -> Iterator[tuple[Path, polib.POFile]]:
    """Yield each catalogue as it has to be: its path, and what it holds, merged with the texts of today.

    Args:
        root: The course's folder.
        language: As "zh".
    """
    chapters = [(path.stem, read(path)) for path in sorted((root / "notebooks").glob("*.ipynb"))]
    labs = [(path.stem, read(path)) for path in sorted((root / "labs").glob("*.ipynb"))]
    sources: dict[str, list[Source]] = {name: list(notebook_sources(one)) for name, one in [*chapters, *labs]}
    sources["shown"] = list(shown_sources(chapters))
    shown = {source.text for source in sources["shown"]}  # one text, one translation
    package = message_sources(root / "src" / "onnxlab")
    sources["messages"] = [source for source in package if source.text not in shown]
    for name, texts in sources.items():
        path = root / "translations" / language / f"{name}.po"
        yield path, merged(open_catalogue(path), texts, language)
