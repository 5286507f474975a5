"""expected.toml: what each recipe says of each ordinary model."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

RIGHT = "right"
EXPORT = "export"


@cache
def table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))


def expected(recipe: str, model: str, exporter: str) -> str:
    """Return a part of what a recipe, or the exporter, says of a model; "right" where nothing is listed."""
    for sentences in table().get(recipe, {}).values():
        for sentence, models in sentences.items():
            if {model, f"{model}, {exporter}"} & set(models):
                return str(sentence)
    return RIGHT
