"""docs/ordinary.md: which recipe holds for which kind of model, from tests/ordinary/expected.toml."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

EXPORTERS = ("torch.export", "TorchScript")
HEAD = """\
# Ordinary models

The course's recipes are tried on models that were not written for a chapter: {models} of them, as people
write them, exported by both exporters. This page says what each recipe made of each model; the tests run
all pairs, those of five models only with `--all`. It is generated: change `tests/ordinary/expected.toml`,
then run `python -m tools.author ordinary`.

- **right**: the recipe did what it promises; where it judges or changes a file, that was compared with
  PyTorch or with the file before.
- **wrong**: the file computes something else than the module, and the recipe says so.
- **refused**: the recipe stops, and says why; the sentences are below the tables.
- **named**: the recipe names what is to be changed in the module or in its inputs, as it promises.
- **-**: the recipe is not for such a model, or the exporter gives no file.
- Empty: not tried; below the tables stands on which models and files a recipe is tried.

Where the exporters differ, the file of torch.export comes first: `right / -`.
"""

Outcomes: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]


def page(root: Path) -> str:
    """Return the text of docs/ordinary.md."""
    table = tomllib.loads((root / "tests" / "ordinary" / "expected.toml").read_text(encoding="utf-8"))
    fields: dict[str, dict[str, str]] = table.pop("models")
    export: Outcomes = table.pop("export")
    recipes: dict[str, Outcomes] = {name: table[name] for name in sorted(table)}
    lines = [HEAD.format(models=sum(map(len, fields.values())))]
    for field, models in fields.items():
        lines += [f"## {field.capitalize()}", "", *_rows(models, export, recipes), ""]
    lines += ["## What the recipes say", ""]
    for name, outcomes in {"the export": export, **recipes}.items():
        lines += _sentences(root, name, outcomes)
    return "\n".join(lines)


def _rows(models: Mapping[str, str], export: Outcomes, recipes: Mapping[str, Outcomes]) -> Iterator[str]:
    yield "| model | " + " | ".join(name.partition(" ")[0] for name in recipes) + " |"
    yield "|---|" + "---|" * len(recipes)
    for model, text in models.items():
        cells = [_cell(model, export, outcomes) for outcomes in recipes.values()]
        yield f"| {text} | " + " | ".join(cells) + " |"


def _cell(model: str, export: Outcomes, outcomes: Outcomes) -> str:
    words = []
    for exporter in EXPORTERS:
        if is_tried(model, exporter, outcomes):
            there = said(model, exporter, export)[0] == "right"
            kind = said(model, exporter, outcomes)[0] if there else "not_for"
            words.append("-" if kind == "not_for" else kind)
    return " / ".join(dict.fromkeys(words))


def said(model: str, exporter: str, outcomes: Outcomes) -> tuple[str, str]:
    """Return the kind of what is said of a model and a part of the sentence: both "right" if nothing is."""
    for kind, sentences in outcomes.items():
        for sentence, listed in sentences.items():
            if kind != "sample" and _named(model, exporter, listed):
                return kind, sentence
    return "right", "right"


def is_tried(model: str, exporter: str, outcomes: Outcomes) -> bool:
    """Tell whether a recipe is tried on a model: each of its samples holds it, if there is one."""
    return all(_named(model, exporter, listed) for listed in outcomes.get("sample", {}).values())


def _named(model: str, exporter: str, listed: Sequence[str]) -> bool:
    return bool({model, f"{model}, {exporter}", f"*, {exporter}"} & set(listed))


def _sentences(root: Path, name: str, outcomes: Outcomes) -> Iterator[str]:
    chapter, _, function = name.partition(" ")
    notebook = next((root / "notebooks").glob(f"{chapter}_*.ipynb"), None)
    title = (
        f"[Chapter {chapter}](../notebooks/{notebook.name}), `{function}`" if notebook else name.capitalize()
    )
    yield f"- {title}:" + (" right for every model" if not any(outcomes.values()) else "")
    for kind, sentences in outcomes.items():
        for sentence, models in sentences.items():
            names = "" if kind in ("not_for", "sample") else ": " + "; ".join(models).replace("_", " ")
            yield f"  - *{sentence}*{names}"
