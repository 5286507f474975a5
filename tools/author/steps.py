"""`python -m tools.author try NAME`: all that must run for an exercise or a chapter, and what is left."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import LABS, lab

Step = tuple[str, list[str]]
"""What a step is called, and its command without the Python."""

_AUTHOR, _TEST = ["-m", "tools.author"], ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
_STATIC: list[Step] = [
    ("format", ["-m", "ruff", "format", "."]),
    ("lint", ["-m", "ruff", "check", "."]),
    ("types", ["-m", "mypy"]),
    ("imports", ["-c", "from importlinter.cli import lint_imports_command as run; run()"]),
]


class NothingToTry(OnnxLabError):
    """No exercise and no chapter has the name."""


def steps(root: Path, name: str) -> list[Step]:
    """Return the steps for an exercise, as "drop-unused", or for a chapter, as "11".

    Raises:
        NothingToTry: If there is no such exercise or chapter.
    """
    for lab_name in LABS:
        if name in {record.id for record in lab(lab_name).exercises}:
            return [*_exercise(lab_name, name), *_STATIC]
    chapters = sorted((root / "notebooks").glob(f"{name.partition('_')[0]}_*.ipynb"))
    if name[:2].isdigit() and len(chapters) == 1:
        return _chapter(chapters[0].relative_to(root))
    raise NothingToTry(
        f"There is no exercise and no chapter {name!r}.",
        "An exercise is named by its id, as drop-unused; a chapter by its number, as 04b.",
        "To write an exercise: python -m tools.author exercise LAB NAME",
    )


def failed_steps(root: Path, name: str) -> Iterator[str]:
    """Run the steps; print each with its outcome, and yield the names of those that failed."""
    todo = steps(root, name)
    for number, (title, command) in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {title} ...", end=" ", flush=True)
        done = subprocess.run([sys.executable, *command], cwd=root, capture_output=True, text=True)
        print("failed" if done.returncode else "ok", flush=True)
        output = (done.stdout + done.stderr).strip()
        if done.returncode:
            print(output[-3000:])
            yield title
        elif title == "translations" and output:
            print(f"      {output.splitlines()[-2]}")


def _exercise(lab_name: str, name: str) -> list[Step]:
    contract = [*_TEST, "tests/labs/test_contract.py", "tests/course/test_lab_release.py"]
    return [
        ("solution and lab", [*_AUTHOR, "sync"]),
        ("outputs of the solution", [*_AUTHOR, "run", f"solutions/{lab_name}.ipynb"]),
        ("solution and lab again", [*_AUTHOR, "sync"]),
        ("contract", [*contract, "-k", f"{name} or no_other or lab_says or metadata_are_those or in_sync"]),
        ("notebooks", [*_AUTHOR, "check", f"solutions/{lab_name}.ipynb", f"labs/{lab_name}.ipynb"]),
        ("translations", [*_AUTHOR, "translate"]),
    ]


def _chapter(path: Path) -> list[Step]:
    number = path.name.partition("_")[0]
    return [
        ("outputs of the chapter", [*_AUTHOR, "run", str(path)]),
        ("notebook", [*_AUTHOR, "check", str(path)]),
        ("list of predictions", [*_AUTHOR, "sync"]),
        ("rules of a chapter", [*_TEST, "tests/notebooks", "-k", f"{number}_ or [{number}] or {path.stem}"]),
        ("a second run", [*_TEST, "--nbval", "--nbval-current-env", str(path)]),
        ("translations", [*_AUTHOR, "translate"]),
    ]
