"""The store of results as a power cut may leave it.

A power cut leaves on a disk what was synchronised, and of what was written after that anything: some blocks,
old or new, and files longer or shorter. `strace` records what a writer asks of the system; a cut is a moment
in that record, with a random choice of what was not synchronised yet.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onnxlab_class.grading.results import Ledger

_STORE = "results.sqlite"
_ROWS = "SELECT student, lab, number, exercise, status, points FROM result ORDER BY student, lab, number"
_Row = tuple[Any, ...]
_WRITER = """
import sys
from pathlib import Path
from onnxlab_class.grading.results import Ledger
from class_support.graded_class import outcomes, submission
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


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("strace"), reason="strace records what is written")
def test_a_store_survives_power_cuts(tmp_path, request):
    random = Random(1)
    out, log = tmp_path / "out", tmp_path / "log"
    options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "1000000", "-o", str(log)]
    calls = "trace=pwrite64,write,fsync,fdatasync,unlink,ftruncate"
    writer = [sys.executable, "-c", _WRITER, str(out)]
    path = {"PYTHONPATH": os.pathsep.join(map(str, request.config.getini("pythonpath")))}
    subprocess.run(["strace", *options, "-e", calls, *writer], env=os.environ | path, check=True)
    record = list(_calls(log.read_text("ascii"), out))
    assert record
    undisturbed = _by_student(out)
    times = 1000 if request.config.getoption("--all") else 20
    disk, done = _Disk(), 0
    for number, moment in enumerate(sorted(random.choices(range(len(record) + 1), k=times))):
        for call in record[done:moment]:
            _apply(disk, call)
        done = max(done, moment)
        place = tmp_path / f"cut{number}"
        place.mkdir()
        for file, data in disk.after_cut(random).items():
            (place / file).write_bytes(data)
        _require_prefix(place, disk.finished, undisturbed)
        shutil.rmtree(place)


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
    with closing(sqlite3.connect(out / _STORE)) as base:
        rows = base.execute(_ROWS).fetchall()
    for row in rows:
        rows_of.setdefault(row[0], []).append(row)
    return rows_of


def _require_prefix(place: Path, finished: int, undisturbed: dict[bytes, list[_Row]]) -> None:
    with Ledger(place, {"level": "none"}, 7):
        pass
    with closing(sqlite3.connect(place / _STORE)) as base:
        assert base.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    rows, names = _by_student(place), sorted(undisturbed)
    assert sorted(rows) == names[: len(rows)]
    assert all(rows[name] == undisturbed[name] for name in rows)
    assert len(rows) >= finished  # what was reported as written is there
