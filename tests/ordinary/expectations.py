"""expected.toml: what each recipe says of each ordinary model."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from tools.author.ordinary import is_tried, said

RIGHT = "right"
EXPORT = "export"


@cache
def table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))


def expected(recipe: str, model: str, exporter: str) -> str:
    """Return a part of what a recipe, or the exporter, says of a model; "right" where nothing is listed."""
    return said(model, exporter, table().get(recipe, {}))[1]


def tried(recipe: str, model: str, exporter: str) -> bool:
    """Whether a recipe is tried on a model."""
    return is_tried(model, exporter, table().get(recipe, {}))
