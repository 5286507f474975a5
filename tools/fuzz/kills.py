"""Kill a grader at random moments and start it again; open a store of results as a power cut may leave it.

Expected after every kill: SQLite calls the file sound, finished results are still there, and none is there
twice. Expected at the end: the rows of a run that was not interrupted.

A power cut leaves on a disk what was synchronised, and of what was written after that anything: some blocks,
old or new, and files longer or shorter. `strace` records what a writer asks of the system; a cut is a moment
in that record, with a random choice of what was not synchronised yet.
"""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab_class.grading.results import Ledger
from tools.fuzz.notebooks import CLASS_LAB, grade_command, notebook
from tools.fuzz.table import FAULT, Table

_STORE = "results.sqlite"
_SUBMISSIONS, _SEED = 6, str(2**100 + 11)
_ROWS = "SELECT student, lab, number, exercise, status, points FROM result ORDER BY student, lab, number"
_Row = tuple[Any, ...]


def kill_graders(times: int, seed: int, *, isolation: str = "auto") -> Table:
    """Kill so many runs, each at a moment between its start and its end; after the last, let one end."""
    table, random = Table("kills", ["killed", "ended before"]), Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "class", Path(name) / "out"
        for number in range(_SUBMISSIONS):
            (folder / f"s{number}").mkdir(parents=True)
            (folder / f"s{number}" / f"{CLASS_LAB}.ipynb").write_text(json.dumps(notebook(number)), "utf-8")
        options = ("--seed", _SEED, "--time", "120", "--isolation", isolation)
        began = time.monotonic()
        subprocess.run(grade_command(folder, out, *options), check=True, stdout=subprocess.DEVNULL)
        duration, expected = time.monotonic() - began, _rows(out)
        shutil.rmtree(out)
        rows_before: list[_Row] = []
        for number in range(times):
            log = _killed(
                grade_command(folder, out, *options), random.uniform(0.2, 1.1) * duration, out.parent / "log"
            )
            table.add("runs", "ended before" if log is None else "killed")
            rows, fault = _after_kill(out, rows_before, log or "")
            if fault:
                table.add("runs", FAULT, fault, f"kill {number}")
            rows_before = rows
            if log is None or len(rows) == len(expected):
                _last(grade_command(folder, out, *options), out, expected, table)
                rows_before = []
                shutil.rmtree(out)
            table.progress(number + 1, times)
        _last(grade_command(folder, out, *options), out, expected, table)
    return table


def _killed(command: list[str], seconds: float, path: Path) -> str | None:
    """Run a command, kill it after so many seconds; return its output, None if it had ended."""
    with path.open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        ended = process.wait() == 0
        log.seek(0)
        return None if ended else log.read()


def _rows(out: Path) -> list[_Row]:
    with closing(sqlite3.connect(out / _STORE)) as base:
        return base.execute(_ROWS).fetchall()


def _after_kill(out: Path, rows_before: list[_Row], log: str) -> tuple[list[_Row], str]:
    """Look at a copy, so that the next run finds the files as the kill left them."""
    if not (out / _STORE).exists():
        return [], "a finished result is lost" if rows_before else ""
    copy = shutil.copytree(out, out.parent / "copy", dirs_exist_ok=True)
    try:
        with closing(sqlite3.connect(copy / _STORE)) as base:
            sound = base.execute("PRAGMA integrity_check").fetchone()[0]
            tables = base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if sound != "ok":
            return rows_before, f"integrity check: {sound}"
        rows = _rows(copy) if tables else []
    except sqlite3.Error as error:
        return rows_before, f"not readable: {error}"
    finally:
        shutil.rmtree(copy)
    finished = max((int(number) for number in re.findall(r"^(\d+) of \d+, ", log, re.MULTILINE)), default=0)
    if (
        not set(rows_before) <= set(rows)
        or len({row[0] for row in rows}) < len({row[0] for row in rows_before}) + finished
    ):
        return rows, "a finished result is lost"
    return rows, "a result is there twice" if len(rows) > len({row[:3] for row in rows}) else ""


def _last(command: list[str], out: Path, expected: list[_Row], table: Table) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode or _rows(out) != expected:
        table.add("last runs", FAULT, f"other rows, exit code {ended.returncode}", ended.stderr[-200:])
    elif list(out.rglob(".writing-*")) or (out / f"{_STORE}-journal").exists():
        table.add("last runs", FAULT, "something half written stays")
    else:
        table.add("last runs", "ended before")


# A power cut

_WRITER = """
import sys
from pathlib import Path
from onnxlab_class.grading.results import Ledger
from tests.support.graded_class import outcomes, submission
for part in range(2):
    with Ledger(Path(sys.argv[1]), {"level": "none"}, 7) as ledger:
        for number in range(part * 12, part * 12 + 12):
            ledger.record(submission(f"s{number:02}"), outcomes(number), note="x" * (number * 900 % 4000))
            Path("/dev/null").write_text(f"finished {number:02}")
        ledger.record(submission("s00", part + 1), outcomes(0))
"""
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (\d+)")
_BLOCK = 512


@dataclass
class _Disk:
    """Files as a system shows them, and how each may look after a cut.

    Attributes:
        files: What is in them now.
        safe: What was in them when they were last synchronised; nothing for one that never was.
        finished: The number of submissions that the writer has reported as written.
    """

    files: dict[str, bytearray] = field(default_factory=dict)
    safe: dict[str, bytes] = field(default_factory=dict)
    finished: int = 0

    def after_cut(self, random: Random) -> dict[str, bytes]:
        """One of the states that a cut may leave."""
        after: dict[str, bytes] = {}
        for name in self.files.keys() | self.safe.keys():
            old, new = self.safe.get(name, b""), bytes(self.files.get(name, b""))
            if name not in self.files and random.random() < 0.5:
                continue  # removed, and the folder was written
            if old == new or name not in self.files:
                after[name] = old
                continue
            if name not in self.safe and random.random() < 0.3:
                continue  # made, and the folder was not written
            share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
            size = random.choice(
                (len(old), len(new), random.randint(min(len(old), len(new)), max(len(old), len(new))))
            )
            blocks = [
                (new if random.random() < share else old)[at : at + _BLOCK].ljust(_BLOCK, b"\0")
                for at in range(0, size, _BLOCK)
            ]
            after[name] = b"".join(blocks)[:size]
        return after


def cut_power(times: int, seed: int) -> Table:
    """Cut the power so many times while a store is written, and open what is left with the grader.

    Raises:
        FileNotFoundError: If there is no `strace`.
    """
    table, random = Table("power cuts", ["prefix", "whole"]), Random(seed)
    with tempfile.TemporaryDirectory() as name:
        out, log = Path(name) / "out", Path(name) / "log"
        options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "1000000", "-o", str(log)]
        calls = "trace=pwrite64,write,fsync,fdatasync,unlink,ftruncate"
        subprocess.run(["strace", *options, "-e", calls, sys.executable, "-c", _WRITER, str(out)], check=True)
        record = list(_calls(log.read_text("ascii"), out))
        undisturbed = _by_student(out)
        moments = sorted(random.choices(range(len(record) + 1), k=times))
        disk, done = _Disk(), 0
        for number, moment in enumerate(moments):
            for call in record[done:moment]:
                _apply(disk, call)
            done = max(done, moment)
            place = Path(name) / "cut"
            place.mkdir()
            for file, data in disk.after_cut(random).items():
                (place / file).write_bytes(data)
            kind, fault = _opened(place, disk.finished, undisturbed)
            table.add("stores", kind, fault, f"cut {number}, after call {moment} of {len(record)}")
            shutil.rmtree(place)
            table.progress(number + 1, times)
    return table


_Call = tuple[str, str, bytes, int]


def _calls(text: str, out: Path) -> Iterator[_Call]:
    """The calls about the store: what was asked, of which file, with which bytes, where."""
    for line in text.splitlines():
        if not (match := _CALL.match(line)):
            continue
        name, arguments, result = match[1], match[2], int(match[3])
        strings = [
            bytes.fromhex(escaped.replace("\\x", ""))
            for escaped in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)
        ]
        paths = [
            re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), escaped)
            for escaped in re.findall(r"<([^<>]*)>", arguments)
        ]
        path = strings[0].decode() if name == "unlink" else paths[0] if paths else ""
        if path == "/dev/null" and strings and strings[0].startswith(b"finished"):
            yield "finished", "", b"", 1
        elif Path(path).parent == out and Path(path).name.startswith(_STORE):
            numbers = [int(number) for number in re.findall(r", (\d+)", re.sub(r'"[^"]*"', "", arguments))]
            data = strings[0][:result] if name == "pwrite64" else b""
            yield name, Path(path).name, data, numbers[-1] if numbers else 0


def _apply(disk: _Disk, call: _Call) -> None:
    name, path, data, number = call
    if name == "finished":
        disk.finished += 1
    elif name == "pwrite64":
        file = disk.files.setdefault(path, bytearray())
        file.extend(bytes(max(0, number - len(file))))
        file[number : number + len(data)] = data
    elif name == "ftruncate":
        file = disk.files.setdefault(path, bytearray())
        del file[number:]
    elif name in ("fsync", "fdatasync"):
        disk.safe[path] = bytes(disk.files.get(path, b""))
    elif name == "unlink":
        disk.files.pop(path, None)


def _by_student(out: Path) -> dict[bytes, list[_Row]]:
    rows_of: dict[bytes, list[_Row]] = {}
    for row in _rows(out):
        rows_of.setdefault(row[0], []).append(row)
    return rows_of


def _opened(place: Path, finished: int, undisturbed: dict[bytes, list[_Row]]) -> tuple[str, str]:
    try:
        with Ledger(place, {"level": "none"}, 7):
            pass
    except OnnxLabError as error:
        return FAULT, f"refused: {error}".replace(str(place), "")
    with closing(sqlite3.connect(place / _STORE)) as base:
        sound = base.execute("PRAGMA integrity_check").fetchone()[0]
    if sound != "ok":
        return FAULT, f"integrity check: {sound}"
    rows = _by_student(place)
    names = sorted(undisturbed)
    if sorted(rows) != names[: len(rows)] or any(rows[name] != undisturbed[name] for name in rows):
        return FAULT, "the rows are no prefix"
    if len(rows) < finished:
        return FAULT, "finished results are lost"
    return ("whole" if len(rows) == len(names) else "prefix"), ""
