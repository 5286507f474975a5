"""Give `onnxlab grade` a class of damaged notebooks.

Expected for each file: a mark, or a reason in the list of files that are not graded. Expected of the run: the
documented exit code, the reports and no traceback. Files that the grader reports as failed ("not graded")
are counted apart.
"""

import copy
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from onnxlab_class.grading.submissions import find
from tools.fuzz.table import FAULT, Table

CLASS_LAB = "lab07_pooling_indices"
_SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
_PATIENCE = 3600.0
_Book = dict[str, Any]
_NAMES = (
    "a b",
    "a\nb",
    "=1+1",
    "<b>",
    "$(reboot)",
    "名前",
    "-rf",
    "x" * 180,
    "con",
    "\udcff\udc80",
    "\u202ea",
    "a;b",
    "lab07",
)
_VALUES: tuple[Any, ...] = (
    None,
    3,
    -1.5,
    True,
    "",
    "x",
    [],
    {},
    [None],
    [[]],
    [3, "x = 1\n"],
    {"a": {}},
    10**400,
    "\ud800",
)
_CODE = (
    *("raise SystemExit(3)", "import os; os._exit(0)", "input()", "%%bash\nls", "!ls", "def (", "await x"),
    *("x = '\0'", "x = '\ud800'", "\ufeff", "(" * 5000, "1" * 100_000, "#" * 2_000_000, "print('x' * 10**7)"),
    *("from __future__ import braces", "quit()", "raise BaseException", "del check", "to_global_indices = 3"),
    *("def to_global_indices(*_): raise KeyboardInterrupt", "class to_global_indices: pass"),
    *("import sys; sys.setrecursionlimit(10**6)\ndef f(): f()\nf()", "import torch; torch.ones(10**12)"),
    *("import os; os.kill(os.getpid(), 9)", "import os; os.close(1); os.close(2)"),
    "import threading; threading.Thread(target=input).start()",
)
_ENDLESS = "while True: pass"
_ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7", "shift-jis")


def notebook(number: int = 0) -> _Book:
    """A right solution of the cheapest exercise: the lab's cells up to its first check."""
    book: _Book = json.loads((_SOLUTIONS / f"{CLASS_LAB}.ipynb").read_text("utf-8"))
    ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") or "" for cell in book["cells"]]
    del book["cells"][ids.index("check-to-global-indices") + 1 :]
    book["metadata"]["student"] = number
    return book


def grade_command(folder: Path, out: Path, *options: str) -> list[str]:
    """The command that grades a class."""
    return [sys.executable, "-m", "onnxlab.cli", "grade", str(folder), "--out", str(out), *options]


def fuzz_notebooks(trials: int, seed: int, *, isolation: str = "auto", size: int = 100) -> Table:
    """Grade classes of so many damaged notebooks each.

    Args:
        trials: How many notebooks in all.
        seed: The same seed gives the same notebooks.
        isolation: As for `onnxlab grade`.
        size: How many are one class.
    """
    table = Table("notebooks", ["marked", "not taken", "not graded"])
    for first in range(0, trials, size):
        with tempfile.TemporaryDirectory() as name:
            folder, out = Path(name) / "class", Path(name) / "out"
            folder.mkdir()
            changes: dict[Path, str] = {}
            for number in range(first, min(first + size, trials)):
                changes |= _hand_in(folder, number, Random(f"{seed} {number}"))
            _grade(folder, out, changes, table, isolation)
        table.progress(min(first + size, trials), trials)
    return table


def _hand_in(folder: Path, number: int, random: Random) -> dict[Path, str]:
    """Write one student's file, or a folder, link or pipe in its place; return its path and its changes."""
    student = f"s{number:04}{random.choice(_NAMES) if random.random() < 0.2 else ''}"
    name = random.choice(
        (CLASS_LAB, CLASS_LAB, CLASS_LAB, "lab07", f"{CLASS_LAB} (1)", "LAB7 my\ncopy \udcff")
    )
    place = folder / random.choice((student, student, f"{student}/{CLASS_LAB}", ""))
    place.mkdir(parents=True, exist_ok=True)
    path = place / (f"{name}.ipynb" if place != folder else f"{student[:60]}_{CLASS_LAB}.ipynb")
    if random.random() < 0.06:
        kind = random.choice(("folder", "link", "pipe", "link to itself"))
        if kind == "folder":
            path.mkdir()
            if random.random() < 0.5:
                (path / "inside.ipynb").write_text("{}")
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/etc/passwd" if kind == "link" else path)
        return {path: kind}
    data, done = _damaged(notebook(number), random)
    path.write_bytes(data)
    return {path: done}


def _damaged(book: _Book, random: Random) -> tuple[bytes, str]:
    changes = random.choices(_CHANGES, k=random.randint(1, 3)) if random.random() < 0.7 else []
    for change in changes:
        change(book, random)
    text = json.dumps(book, ensure_ascii=random.random() < 0.5)
    names = [change.__name__.strip("_") for change in changes]
    if random.random() < 0.5:
        change_text = random.choice(_WRITTEN)
        return change_text(text, random), ", ".join([*names, change_text.__name__.strip("_")])
    return text.encode("utf-8", "surrogatepass"), ", ".join(names) or "unchanged"


def _cells(book: _Book) -> list[Any]:
    cells = book.get("cells")
    return cells if isinstance(cells, list) else []


def _cell(book: _Book, random: Random) -> _Book:
    cells = [cell for cell in _cells(book) if isinstance(cell, dict)]
    return random.choice(cells) if cells else {}


def _order(book: _Book, random: Random) -> None:
    if cells := _cells(book):
        kind = random.randrange(4)
        if kind == 0:
            random.shuffle(cells)
        elif kind == 1:
            del cells[random.randrange(len(cells)) :]
        elif kind == 2:
            cells.extend(copy.deepcopy(cells) * random.choice((1, 50)))  # ids twice, too
        else:
            cells[random.randrange(len(cells))] = random.choice(_VALUES)


def _field(book: _Book, random: Random) -> None:
    """A wrong type somewhere in a cell."""
    _cell(book, random)[random.choice(("cell_type", "source", "metadata", "outputs", "id", "input"))] = (
        random.choice(_VALUES)
    )


def _top(book: _Book, random: Random) -> None:
    book[random.choice(("cells", "metadata", "nbformat", "nbformat_minor", "worksheets"))] = random.choice(
        _VALUES
    )


def _format(book: _Book, random: Random) -> None:
    book["nbformat"] = random.choice((0, 3, 5, 99, "4"))
    if random.random() < 0.5:
        book["worksheets"] = [{"cells": book.pop("cells", [])}, random.choice(_VALUES)]


def _metadata(book: _Book, random: Random) -> None:
    cell = _cell(book, random)
    cell["metadata"] = {
        "nbgrader": random.choice((*_VALUES, {"grade_id": random.choice(_VALUES)})),
        "tags": random.choice(_VALUES),
    }


def _outputs(book: _Book, random: Random) -> None:
    text = "x" * random.choice((10, 500_000, 9_000_000))
    _cell(book, random)["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]


def _code(book: _Book, random: Random) -> None:
    source = _ENDLESS if random.random() < 0.04 else random.choice(_CODE)
    cell: _Book = {
        "cell_type": "code",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }
    _cells(book).insert(random.randrange(len(_cells(book)) + 1), cell)


def _flipped(text: str, random: Random) -> bytes:
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(random.randint(1, 30)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _cut(text: str, random: Random) -> bytes:
    return text.encode("utf-8", "surrogatepass")[
        : random.choice((0, 1, random.randrange(len(text)), len(text) - 1))
    ]


def _encoded(text: str, random: Random) -> bytes:
    return text.encode(random.choice(_ENCODINGS), random.choice(("replace", "backslashreplace")))


def _filled(text: str, random: Random) -> bytes:
    """The text with zero bytes in it or around it, the text twice, or other bytes instead."""
    data, zeros = text.encode("utf-8", "surrogatepass"), b"\0" * random.choice((1, 2, 1000))
    place = random.randrange(len(data))
    nested = random.choice((b"[", b'{"cells":')) * random.choice((500, 200_000))
    return random.choice(
        (
            zeros + data,
            data + zeros,
            data[:place] + zeros + data[place:],
            zeros,
            nested,
            data + data,
            b"NaN",
            b"9" * 9999,
        )
    )


_CHANGES: tuple[Callable[[_Book, Random], None], ...] = (
    _order,
    _field,
    _field,
    _top,
    _format,
    _metadata,
    _outputs,
    _code,
    _code,
    _code,
)
_WRITTEN: tuple[Callable[[str, Random], bytes], ...] = (_flipped, _cut, _encoded, _filled)


def _grade(folder: Path, out: Path, changes: dict[Path, str], table: Table, isolation: str) -> None:
    handed_in = find(folder)
    options = ("--time", "20", "--isolation", isolation)
    run = subprocess.Popen(
        grade_command(folder, out, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        output, error = run.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        run.kill()
        output, error = run.communicate()
        table.add("run", FAULT, "it hangs", error[-300:])
    for fault, example in _faults(run.returncode, output, error, out):
        table.add("run", FAULT, fault, example)
    if not (out / "results.sqlite").exists():
        return
    with closing(sqlite3.connect(out / "results.sqlite")) as base:
        marked = set(base.execute("SELECT student, lab FROM submission"))
        failed = {(student, lab): why for student, lab, why in base.execute("SELECT * FROM failure")}
    gradable = {
        submission.path: (submission.student.encode("utf-8", "surrogatepass"), submission.lab)
        for submission in handed_in.submissions
    }
    ignored = [path for path, _ in handed_in.ignored]
    for path, change in changes.items():
        path = next(
            (file for file in gradable if path in file.parents), path
        )  # a folder with a notebook in it
        if path in gradable and gradable[path] in marked:
            table.add("files", "marked")
        elif path in gradable and gradable[path] in failed:
            table.add("files", "not graded", failed[gradable[path]], f"{path.name}: {change}")
        elif path not in gradable and any(
            file in (path, *path.parents) or path in file.parents for file in ignored
        ):
            table.add("files", "not taken")
        else:
            table.add("files", FAULT, "neither a mark nor a reason", f"{path.relative_to(folder)}: {change}")
    if run.returncode != (1 if failed else 0):
        table.add("run", FAULT, f"exit code {run.returncode} with {len(failed)} not graded", error[-300:])


def _faults(code: int, output: str, error: str, out: Path) -> Iterator[tuple[str, str]]:
    if "Traceback" in output + error:
        yield "a traceback", error[-300:]
    if code not in (0, 1):
        yield f"exit code {code}", error[-300:]
    for name in ("grades.csv", "summary.html", "feedback"):
        if not (out / name).exists():
            yield f"no {name}", error[-300:]
