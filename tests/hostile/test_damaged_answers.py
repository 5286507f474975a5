"""What a judge reads may have been written by anything: it says what is wrong, whatever that is."""

import io
import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from onnxlab.judges.lab01_control_flow.interventions import inlined
from onnxlab.kit.checking import judge, questions_seed
from onnxlab.kit.exercise import exercise
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.producing import produce
from onnxlab.kit.work import Work
from tests.hostile.damage import arrays, damaged_models, json_files
from tests.support.labs import contracts

pytestmark = pytest.mark.slow  # some hundred exports

CONTRACTS = contracts()
# One of each family, by what its judge reads: answers in JSON, in arrays, a rewritten model, a model of each
# exporter, many models of one scene, a model with the arrays it was made from.
FAMILIES = (
    "to-global-indices",
    "letterbox",
    "fold-batchnorm",
    "loop-count-as-input",
    "asinh-translation",
    "rshift-symbolic",
    "clip-fault",
)
HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
TEXTS = {
    "other names": "g (float[N, 4] a, int64 b) => (float[N, 4] c) { c = Identity (a) }",
    "text": "g (string[N] x) => (string[N] y) { y = Identity (x) }",
    "a sequence": "g (float[n] x) => (seq(float[n]) y) { y = SequenceConstruct (x, x) }",
    "of a sequence": "g (seq(float[n]) x) => (float[n] y) "
    "{ i = Constant <value = int64 {0}> () y = SequenceAt (x, i) }",
    "an optional": "g (float[N, M] x) => (optional(float[N, M]) y) { y = Optional (x) }",
    "no input": "g () => (float[2] y) { y = Constant <value = float[2] {1.0, 2.0}> () }",
    "truth": "g (float x) => (bool y) { y = Greater (x, x) }",
    "half": "g (float16[N, 4] x) => (float16[N, 4] y) { y = Identity (x) }",
    "unknown operator": "g (float[N] x) => (float[N] y) { y = Nothing (x) }",
    "two outputs": "g (float[n] x) => (float[n] y, float[n] z) { y = Abs (x) z = Neg (x) }",
}
FUNCTION = onnx.FunctionProto(domain="own", name="f", input=["x"], output=["y"])
JSON = ["null", "3", '"x"', "[]", "{}", "[null]", '["a", "b"]', "[[1, 2]]", '[[["image", 3]], [], [], []]']
JSON += [
    "NaN",
    '{"a": null}',
    '{"a": [[]], "1": {"b": "c"}}',
    '{"a"',
    "[" * 50_000,
    "9" * 5_000,
    "true",
    "9" * 400,
    '"\\ud800"',
]
HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4398046511104,), }"  # sixteen terabytes
ARRAYS = [
    np.zeros(()),
    np.zeros((0, 3)),
    np.full((2, 2), np.nan),
    np.zeros((1,) * 9, np.int8),
    np.ones(3, bool),
]


def odd_models() -> list[bytes]:
    plain = parser.parse_model(HEAD + TEXTS["truth"])

    def changed(change) -> bytes:
        model = onnx.ModelProto()
        model.CopyFrom(plain)
        change(model)
        return model.SerializeToString()

    return [
        *(parser.parse_model(HEAD + text).SerializeToString() for text in TEXTS.values()),
        *(b"", b"\0" * 10, b"hello", bytes(range(256))),
        changed(lambda model: model.graph.node[0].input.__setitem__(0, "y")),
        changed(lambda model: model.graph.input[0].ClearField("type")),
        changed(lambda model: model.graph.ClearField("output")),
        changed(lambda model: model.graph.node.append(model.graph.node[0])),
        changed(lambda model: model.ClearField("opset_import")),
        changed(lambda model: model.graph.initializer.add(name="w", data_type=99, dims=[-2])),
        changed(lambda model: model.functions.extend([FUNCTION, FUNCTION])),
        changed(lambda model: setattr(model.opset_import[0], "version", 2**40)),
        changed(lambda model: setattr(model.opset_import[0], "version", 10**18)),
        changed(lambda model: setattr(model, "ir_version", 2**62)),
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With --all, every exercise."""
    if "produced" in metafunc.fixturenames:
        names = sorted(CONTRACTS) if metafunc.config.getoption("--all") else FAMILIES
        metafunc.parametrize("produced", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def produced(request, tmp_path_factory):
    """The folder of a right answer, and its exercise."""
    _, record = exercise(request.param)
    folder: Path = tmp_path_factory.mktemp(request.param)
    answers = dict(zip(record.answers, CONTRACTS[request.param].right[0], strict=True))
    assert produce(record, answers, Work(folder, questions_seed(record, 0))).status is None
    return record, folder


@pytest.mark.parametrize("kind", ["onnx", "json", "npy"])
def test_judge_survives_any_file(produced, kind, request):
    """Every content stands in one of the files, and every file is missing once.

    Each judgement goes over all files of the exercise, so each content in each file would take
    twenty minutes. Neighbours in FAMILIES share the contents out; with --all each takes all.
    """
    record, folder = produced
    work = Work(folder, questions_seed(record, 0))
    paths = sorted(folder.glob(f"*.{kind}"))
    everything = request.config.getoption("--all")
    share = slice(None) if everything else slice(FAMILIES.index(record.id) % 2, None, 2)
    replacements = zip(contents(kind)[share], itertools.cycle(paths))
    for content, path in [*replacements, *((None, path) for path in paths)]:
        before = path.read_bytes()
        try:
            path.unlink() if content is None else path.write_bytes(content)
            assert all(finding.holds in (True, False) for finding in judge(record, work, 0))
        finally:
            path.write_bytes(before)


@pytest.mark.parametrize("change", ["one more", "one less", "the first twice"])
def test_judge_survives_the_right_model_with_other_outputs(produced, change):
    record, folder = produced
    work = Work(folder, questions_seed(record, 0))
    paths = sorted(folder.glob("*.onnx"))
    before = {path: path.read_bytes() for path in paths}
    try:
        for path in paths:
            model = onnx.load_model(path)
            outputs = model.graph.output
            if change == "one more":
                model.graph.node.add(op_type="Identity", input=[outputs[0].name], output=["one_more"])
                outputs.add(name="one_more", type=outputs[0].type)
            elif change == "one less":
                outputs.pop()
            else:
                outputs.append(outputs[0])
            path.write_bytes(model.SerializeToString())
        assert all(finding.holds in (True, False) for finding in judge(record, work, 0))
    finally:
        for path, content in before.items():
            path.write_bytes(content)


@settings(max_examples=12)
@given(data=st.data())
def test_judge_survives_damaged_files(produced, tmp_path_factory, data):
    record, folder = produced
    names = sorted(path.name for path in folder.iterdir())
    damaged = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=3))
    place = tmp_path_factory.mktemp("answer")
    for name in names:
        content = (folder / name).read_bytes()
        if name in damaged:
            kind = name.rpartition(".")[2]
            strategies = {
                "json": lambda: json_files(content),  # noqa: B023 - drawn at once
                "npy": lambda: arrays(content),  # noqa: B023
                "onnx": lambda: damaged_models((content,)),  # noqa: B023
            }
            content = data.draw(st.none() | strategies[kind]())
        if content is not None:
            (place / name).write_bytes(content)
    findings = judge(record, Work(place, questions_seed(record, 0)), 0)
    assert [finding.title for finding in findings] == list(record.parts)
    assert all(finding.holds in (True, False) for finding in findings)
    assert all(finding.message.strip() for finding in findings if not finding.holds)


def contents(kind: str) -> list[bytes]:
    if kind == "onnx":
        return odd_models()
    if kind == "json":
        return [text.encode() for text in JSON]
    archive = io.BytesIO()
    np.savez(archive, np.zeros(3))
    header = b"\x93NUMPY\x01\x00" + len(HUGE).to_bytes(2, "little") + HUGE
    return [*map(npy_bytes, ARRAYS), b"", b"\x93NUMPY", archive.getvalue(), header]


def npy_bytes(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_functions_that_cannot_be_written_out_are_refused():
    model = onnx.load_model_from_string(odd_models()[0])
    model.functions.extend([FUNCTION, FUNCTION])
    with pytest.raises(Wrong, match="refuses the model's functions"):
        inlined(model)
