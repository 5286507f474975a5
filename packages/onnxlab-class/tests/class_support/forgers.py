"""Submissions without one answer that forge what a judge says, in every exercise of every lab.

Each writes records and reports of its own into every exercise's folder, under every name that a judge's word
has or had, beside models that end the judge or keep it busy.
"""

import functools
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from class_support.small_class import LAB
from onnxlab.kit.checking import questions_seed
from onnxlab.kit.exercise import LABS, exercise, lab
from onnxlab.kit.producing import produce_in_child
from onnxlab.kit.work import Work
from tests.support.labs import contracts

# A chain of 9,990 functions: ONNX Runtime follows it until its stack is full.
CRASH = """
import onnx
from onnx import helper as h
def bad():
    sets = [h.make_opsetid("", 9), h.make_opsetid("own", 1)]
    value = lambda name: h.make_tensor_value_info(name, 1, ["N", "M"])
    last = h.make_node("Asinh", ["x"], ["y"])
    call = lambda n: h.make_node(f"f{n}", ["x"], ["y"], domain="own") if n < 9990 else last
    functions = [h.make_function("own", f"f{n}", ["x"], ["y"], [call(n + 1)], sets) for n in range(9990)]
    graph = h.make_graph([call(0)], "g", [value("x")], [value("y")])
    return h.make_model(graph, functions=functions, opset_imports=sets, ir_version=8)
"""
ENDLESS = """
import onnx, onnx.parser
def bad():
    return onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 9]>
    g (float[N, M] x) => (float[N, M] y) {
        n = Constant<value = int64 {9000000000000000000}>()
        yes = Constant<value = bool {1}>()
        y = Loop(n, yes, x) <body = b (int64 i, bool c, float[N, M] a) => (bool d, float[N, M] z) {
            d = Identity(c)
            z = Identity(a)
        }>
    }''')
"""
_FORGE = """
import json, os, pathlib
holds = {{"title": "t", "holds": True, "message": "", "look_at": "", "difference": None}}
parts = [holds] * 99
model, here = bad().SerializeToString(), pathlib.Path.cwd()
for exercise, (titles, files) in {exercises!r}.items():
    place = here / exercise
    place.mkdir(exist_ok=True)
    parts = [holds | {{"title": title}} for title in titles]
    report = {{"findings": parts, "parts": parts, "evidence": {evidence!r}, "graphs": {evidence!r}}}
    for name in ("findings.json", "report.json", f"report-{{exercise}}.json", f".report-{{exercise}}.json"):
        (place / name).write_text(json.dumps(report))
        (here / name).write_text(json.dumps(report))
    for name in files:
        (place / name).write_bytes(model if name.endswith(".onnx") else b"[]")
    record = {{"status": None, "message": "", "look_at": "", "refused": False, "where": "", "printed": 0}}
    (place / "production.json").write_text(json.dumps(record))
for name in ("stage.json", "crash.txt"):
    (here / name).write_text("{{}}")
os._exit(0)
"""


@dataclass(frozen=True)
class Forger:
    """A submission.

    Attributes:
        name: What it does.
        lab: The lab.
        bad: The code of the function `bad`, which makes the model.
        evidence: The graphs in its reports.
    """

    name: str
    lab: str
    bad: str
    evidence: object = None

    def notebook(self) -> bytes:
        """Its file."""
        exercises = {
            exercise.id: ([*exercise.parts], sorted(files_of(exercise.id)))
            for exercise in lab(self.lab).exercises
        }
        cells = [
            nbformat.v4.new_code_cell(self.bad + _FORGE.format(exercises=exercises, evidence=self.evidence))
        ]
        return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()


FORGERS = (
    *(Forger(f"a judge that crashes in {name[:5]}", name, CRASH) for name in LABS),
    Forger("a judge that never ends", "lab04_asinh", ENDLESS),
    *(
        Forger(f"evidence {number}", LAB, CRASH, evidence)
        for number, evidence in enumerate((3, "text", [[1]], {"model": 3}, True))
    ),
)


@functools.cache
def files_of(exercise_id: str) -> dict[str, bytes]:
    """The files that a right answer of an exercise makes, by name."""
    contract = contracts()[exercise_id]
    _, record = exercise(exercise_id)
    answers = dict(zip(record.answers, contract.right[0], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        production = produce_in_child(record, answers, Work(Path(folder), questions_seed(record, 0)))
        assert production.status is None, production.message
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# Records of every wrong kind, as JSON, in place of what the course writes about an exercise.
RECORDS = (
    *(
        "",
        "null",
        "[]",
        "3",
        '"text"',
        "{}",
        "[" * 100_000,
        "9" * 5_000,
        "\xff",
        '{"status": null, "message": 3}',
    ),
    *(f'{{"status": {status}}}' for status in ('"passed"', "3", "true", "[]", "{}", "NaN", '"\\ud800"')),
    *(
        f'{{"status": "error", "{key}": {value}}}'
        for key in ("message", "look_at", "refused", "where", "printed")
        for value in (
            "null",
            "[[]]",
            "9" * 400,
            "true",
            "NaN",
            '"\\ud800\\u0000\\u202e"',
            "-1e999",
            '{"a": 1}',
        )
    ),
    f'{{"status": "error", "message": "{"x" * 900_000}"}}',
    '{"status": "incorrect", "refused": true, "message": "<script>", "printed": 9223372036854775807}',
)
_WRITE_RECORDS = """
import os, pathlib
for exercise, record in {records!r}.items():
    place = pathlib.Path(exercise)
    place.mkdir(exist_ok=True)
    (place / "production.json").write_text(record, "latin-1")
    (place / "findings.json").write_text('{{"findings": {{}}, "evidence": 3}}')
pathlib.Path("notes.json").write_text({notes!r})
os._exit(0)
"""


def hand_in_records(folder: Path) -> int:
    """Write submissions of lab 7 with these records, one for each exercise; return how many."""
    names = [exercise.id for exercise in lab(LAB).exercises]
    notes = ("[[]]", '{"a": 1}', "3", '["\\ud800", 3]', "[" * 100_000)
    groups = [RECORDS[first : first + len(names)] for first in range(0, len(RECORDS), len(names))]
    for number, records in enumerate(groups):
        by_name = dict(zip(names, records, strict=False))
        code = _WRITE_RECORDS.format(records=by_name, notes=notes[number % len(notes)])
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        place = folder / f"records {number}"
        place.mkdir(parents=True)
        (place / f"{LAB}.ipynb").write_text(nbformat.writes(book), "utf-8")
    return len(groups)


def hand_in_forgers(folder: Path, forgers: Iterable[Forger] = FORGERS) -> Path:
    """Write them as a folder of students."""
    for forger in forgers:
        place = folder / forger.name
        place.mkdir(parents=True)
        (place / f"{forger.lab}.ipynb").write_bytes(forger.notebook())
    return folder
