"""expected.toml: what each recipe says of each ordinary model."""

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

RIGHT = "right"
EXPORT = "export"
SAMPLE = "sample"


@cache
def table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))


def expected(recipe: str, model: str, exporter: str) -> str:
    """Return a part of what a recipe, or the exporter, says of a model; "right" where nothing is listed."""
    for kind, sentences in table().get(recipe, {}).items():
        for sentence, models in sentences.items():
            if kind != SAMPLE and named(model, exporter, models):
                return str(sentence)
    return RIGHT


def named(model: str, exporter: str, models: Sequence[str]) -> bool:
    return bool({model, f"{model}, {exporter}", f"*, {exporter}"} & set(models))


def tried(recipe: str, model: str, exporter: str) -> bool:
    """Whether a recipe is tried on a model: each of its samples holds it, if there is one."""
    return all(named(model, exporter, models) for models in table().get(recipe, {}).get(SAMPLE, {}).values())
