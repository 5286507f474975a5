"""`onnxlab why`: messages of public threads, of the saved notebooks, of other people, and of no kind."""

import io
import json
import re
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch

from onnxlab.cli import main
from onnxlab.diagnosis.messages import answers, explain, read, stages
from onnxlab.patients.ward import patients
from tests.diagnosis.page_answers import require_same

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"

THREADS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("threads.tsv").read_text("utf-8").splitlines()
]
"""A public thread, the chapter that answers it, and its message as torch or the runtime words it."""

PUBLIC = json.loads(Path(__file__).with_name("public_messages.json").read_text("utf-8"))
"""Messages that people posted, with their source and what a right answer names, as regular expressions;
"written" ones are of other things. Before any was answered, of the first 76 57 were right, 15 unknown,
4 wrong; of the next 81 (and 8 written) 60 were right, 10 unknown, 11 wrong."""

GIVEN = json.loads(Path(__file__).with_name("given_messages.json").read_text("utf-8"))
"""More of them, and messages that were captured by running a fault."""

RUN = "Non-zero status code returned while running {} node. Name:'/n' Status Message: {}"
GAP = re.compile(r"\{(\w+)(?::(\w+))?\}|\.\.\.|<([^<>|]*)(?:\|[^<>|]*)+>")


def first(text: str) -> str:
    """Return the kind of the first answer."""
    return next((answer.name for answer in explain(text)), "unknown")


def example(wording: str) -> str:
    """Return a message of a wording of the table."""
    values = {"int": "7", "word": "Word", "file": "x.so"}

    def filled(gap: re.Match[str]) -> str:
        return gap[3] if gap[3] is not None else values.get(gap[2], "thing" if gap[1] else " x ")

    return GAP.sub(filled, wording)


@pytest.mark.parametrize(("chapter", "text"), [row[1:] for row in THREADS], ids=[row[0] for row in THREADS])
def test_a_message_of_a_public_thread_leads_to_its_chapter(chapter, text):
    [answer] = explain(text)
    assert answer.chapter.startswith(chapter)


def verdict(row: dict[str, str | list[str]]) -> str:
    """Return what became of a public message: right, unknown or wrong."""
    known = explain(str(row["message"]))
    if not known:
        return "right" if "__UNKNOWN__" in row["right"] else "unknown"
    text = f"{known[0].cause} {known[0].fix}"
    fits = any(re.search(one, text, re.IGNORECASE | re.DOTALL) for one in row["right"])
    return "right" if fits and not any(re.search(one, text) for one in row.get("wrong_if", ())) else "wrong"


def test_messages_of_other_people_are_answered_rightly_or_not_at_all():
    rows = [*PUBLIC, *GIVEN]
    verdicts = [(verdict(row), row["message"]) for row in rows]
    assert [message for one, message in verdicts if one == "wrong"] == []
    assert sum(one == "right" for one, _ in verdicts) >= 0.9 * len(rows)
    assert [row["message"] for row in rows if row["source"] == "written" and explain(row["message"])] == []


@pytest.mark.parametrize(
    ("have", "want", "says"),
    [
        ("int32", "int64", "astype(np.int64)"),
        ("int64", "int32", "astype(np.int32)"),
        ("double", "float", "astype(np.float32)"),
        ("bool", "float", "astype(np.float32)"),
        ("float", "double", "astype(np.float64)"),
        ("float", "float16", "keep_io_types"),
        ("string", "float", "dtype"),
        ("uint8", "float", "astype(np.float32)"),
        ("float", "uint8", "astype(np.uint8)"),
    ],
)
def test_the_fix_of_a_type_is_the_type_that_the_message_wants(have, want, says):
    [answer] = explain(f"Unexpected input data type. Actual: (tensor({have})) , expected: (tensor({want}))")
    assert says in answer.fix
    assert (f"np.{want}" in answer.fix) or want in {"float", "double", "float16"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (RUN.format("Gather", "indices element out of data bounds, idx=9 must be"), "index-beyond-the-table"),
        (RUN.format("Conv", "Failed to allocate memory for requested buffer of size 64"), "out-of-memory"),
        (RUN.format("Reshape", "gather.cc:9 words of next year"), "reshape-size"),
        (RUN.format("TopK", "words of next year"), "topk-too-large"),
        (RUN.format("Foo", "Input shape is not as expected"), "a-size-at-a-node"),
        (RUN.format("Foo", "words of next year"), "unknown"),
        ("Type 'tensor(bool)' of input parameter (m) of operator (CumSum) in node", "type-not-allowed"),
        ("Type 'tensor(float16)' of input parameter (s) of operator (Resize) in node", "resize-in-float16"),
        ("Type 'tensor(int16)' of input parameter (w) of operator (MatMulInteger)", "quantised-to-16-bits"),
        ("Type 'tensor(int32)' of input parameter (s) of operator (Reshape) in node", "shape-of-int32"),
        ("Invalid output name: y", "output-name-unknown"),
        ("Invalid input name: y", "input-name-unknown"),
        ("ModuleNotFoundError: No module named 'onnxscript'", "onnxscript-is-missing"),
        ("ModuleNotFoundError: No module named 'torch.onnx.symbolic_registry'", "museum-symbolic-registry"),
        (RUN.format("MatMul", "CUBLAS error executing cublasGemmHelper("), "cuda-failure"),
        (RUN.format("Conv", "CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED"), "cudnn-failure"),
        (RUN.format("Conv", "MLOperatorAuthorImpl.cpp(2482) DmlExecutionProvider"), "directml-failure"),
        ("UnicodeDecodeError: Truncated message", "unknown"),
        (RUN.format("Conv", "CUDNN error executing cudnnAddTensor("), "cudnn-failure"),
        ("Load model from m failed:model.cc:111 Model Unknown model file format version.", "ir-version"),
        ("ONNX: export failure 0.1s: Unsupported ONNX opset version: 17", "opset-of-another-torch"),
        ("SymIntArrayRef expected to contain only concrete integers", "symbolic-size-refused"),
        ("must be tuple of ints, but found element of type SymFloat", "number-for-a-float"),
        ("onnx_importer.cpp:78: (-5:Bad argument) Can't read ONNX file: m.onnx", "opencv-file"),
        ("onnx_importer.cpp:10: Node [Div@ai.onnx]:(d) parse error", "opencv-importer"),
        ("failed:Fatal error: ATen is not a registered function/op", "left-to-aten"),
        ("failed:Fatal error: my.domain:Roi(-1) is not a registered function/op", "operator-not-registered"),
        ("No module named 'onnxruntime_tools'", "package-replaced"),
        ("No module named 'onnxruntime.tools'", "package-is-missing"),
        ("No module named 'optimum.onnxruntime'", "optimum-extra-is-missing"),
        ("module 'torch.onnx' has no attribute 'OperatorExportTypes'", "export-arguments"),
        ("module 'torch.onnx' has no attribute 'dynamo_export'", "onnx-program-too-old"),
        (
            "FX nodes: RuntimeErrorWithDiagnostic: Unsupported FX nodes: {'call_function'",
            "onnx-program-too-old",
        ),
        ("Attribute 'kernel_shape' is expected to have field 'ints'", "axis-or-size-unknown"),
        ("Attribute 'alpha' is expected to have field 'f'", "attribute-is-missing"),
        ("AttributeError: FLOAT8E4M3FN", "too-old-packages-together"),
        ("Cannot find module '../bin/napi-v3/darwin/x64/onnxruntime_binding.node'", "native-module-of-node"),
        ("The Node.js native addon module (tfjs_binding.node) can not be found", "unknown"),
        ("Unable to find an entry point named 'OrtGetApiBase' in DLL", "native-library-of-dotnet"),
        ("Unable to load DLL 'sqlite3': The specified module could not be found.", "unknown"),
        ("libonnxruntime.so.1.18.0: cannot open shared object file", "native-library-of-c"),
        ("libonnxruntime_providers_cuda.so with error: libcublas.so.12:", "cuda-library-not-found"),
        ("third_party/onnx-optimizer/onnx/common/ir.h:1372: eraseOutput: Assertion", "simplifier-failed"),
        ("BackendIsNotSupposedToImplementIt: Squeeze version 13", "onnx-tf-operator"),
        (
            "'x': the model expects 4 dimensions (shape [1]) but the model configuration specifies",
            "triton-configuration",
        ),
        ("Unsupported shape calculation for operator mlProgram", "skl2onnx-converter"),
        ('Could not locate file: "https://x/onnx/model.onnx".', "repository-without-this-file"),
        ("tuple appears in op that does not forward tuples", "jit-inputs"),
        ("state_dict changed after running the tracer", "module-made-in-forward"),
        ("No ONNX function found for <OpOverload(op='prims.uniform', overload=", "module-made-in-forward"),
        (RUN.format("OpenVINO-EP-subgraph_1", "Cannot find blob with name: 1180"), "openvino-failure"),
        (RUN.format("Add", "Left operand cannot broadcast on dim 3"), "broadcast-size"),
        (RUN.format("MatMul", "left operand cannot broadcast on dim 0"), "matmul-size"),
        ("Unexpected input data type. Actual: (((null))) , expected: ((tensor(float16)))", "input-is-none"),
        ("invalid model. Error in Node:fused gemm : Attribute 'alpha' appeared", "optimiser-of-the-runtime"),
        (
            "Error Node (n)'s output 1 is marked single but has an empty string in the graph",
            "count-of-inputs",
        ),
        ("Removing mutation from node aten::add_ on block input: 'b.n'", "change-in-place-removed"),
        ("Onnxruntime not found or doesn't come with acceleration providers", "provider-not-in-this-build"),
        ("ValueError: The onnxruntime python package is not installed.", "package-is-missing"),
        ("'Sequential' object has no attribute '_get_save_spec'", "keras-3-and-tf2onnx"),
        ("'Functional' object has no attribute 'output_names'", "keras-3-and-tf2onnx"),
        ("'Trainer' object has no attribute 'output_names'", "unknown"),
        ("keras2onnx/_parser_tf.py:304: 'KerasTensor' object has no attribute 'graph'", "package-replaced"),
        ("CreateInferencePybindStateModule] Init provider bridge failed.", "provider-bridge"),
        (RUN.format("LayerNorm", "Input Missing Input: encoder.0.LayerNorm.weight"), "weight-without-data"),
        (RUN.format("LayerNorm", "Input Missing Input: weight"), "input-is-none"),
        ("[TRT] ERROR: x: dynamic input is missing dimensions in profile 0.", "tensorrt-profile"),
        ("Error Code 2: Internal Error (Assertion tensor.extent.d[j] == 1 failed.)", "tensorrt-internal"),
        ("[F] [TRT] Assertion failed: !empty()", "tensorrt-internal"),
        (
            "Error Code 10: Internal Error (Could not find any implementation for node x.)",
            "tensorrt-no-implementation",
        ),
        ("ERROR: input:44 In function importInput:\n[7] Assertion failed: convert_dims(", "tensorrt-parser"),
        ("Check failed, please be careful to use the simplified model", "simplified-differs"),
        ("Could not find ONNX initializer for torch parameter embed.weight.", "tied-weight-not-found"),
    ],
)
def test_what_distinguishes_a_message_decides(text, kind):
    assert first(text) == kind


GATHER = RUN.format("Gather", "indices element out of data bounds, idx=9 must be within the range [-7,6]")


SURROUNDED = (
    GATHER,
    f"\x1b[1;31m{GATHER[:30]}\x1b[0m{GATHER[30:]}",
    f"[1;31m{GATHER[:30]}[0m{GATHER[30:]}",  # the escape characters were lost
    f"worker-1  | {GATHER}",
    f"2026-01-02 03:04:05.678 {GATHER}",
    "\n".join(GATHER[i : i + 40] for i in range(0, len(GATHER), 40)),  # a narrow terminal
    GATHER.replace(" ", "\n"),
    GATHER[:140],
    repr(f"Error:\n{GATHER}"),
    f"[W:onnxruntime:, graph.cc:1 MergeShapeInfo] Error merging shape info for output. 'y'\n{GATHER}",
    f'FAIL: {GATHER}\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n{GATHER}',
)
"""One message as people paste it."""


@pytest.mark.parametrize("text", SURROUNDED)
def test_what_stands_around_a_message_does_not_matter(text):
    assert first(text) == "index-beyond-the-table"


@pytest.mark.parametrize("width", range(20, 90, 7))
def test_a_line_break_within_a_type_does_not_break_the_type(width):
    text = (
        "INVALID_ARGUMENT : Unexpected input data type. Actual: (tensor(int32)) , expected: (tensor(int64))"
    )
    [answer] = explain("\n".join(text[i : i + width] for i in range(0, len(text), width)))
    assert (answer.name, answer.fix) == ("type-of-a-feed", "Convert the input: x.astype(np.int64).")


@pytest.mark.parametrize(("code", "kind"), [("x", "int64"), ("a", "int8"), ("m", "uint64")])
def test_a_type_with_the_name_that_a_compiler_gave_it_is_read(code, kind):
    mangled = "N11onnxruntime11NonOnnxTypeI{}EE"
    types = f"Actual: ({mangled.format('i')}) , expected: ({mangled.format(code)})"
    [answer] = explain(f"Unexpected input data type. {types}")
    assert (answer.name, answer.fix) == ("type-of-a-feed", f"Convert the input: x.astype(np.{kind}).")


def test_a_traceback_gives_its_last_exception_and_the_line_of_its_reader():
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/me/shop/run.py", line 3, in <module>\n    session.run(None, feeds)\n'
        '  File "/usr/lib/python3.11/site-packages/onnxruntime/capi/x.py", line 9, in run\n'
        '    raise ValueError("Required inputs are missing from input feed")\n'
        "onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: Invalid output name: y\n"
    )
    assert first(text) == "output-name-unknown"
    assert read(text).line == "/home/me/shop/run.py, line 3"


def test_an_unknown_message_is_not_guessed_and_its_stage_is_said(capsys):
    text = "torch.onnx._internal.exporter._errors.TorchExportError: This is step 1/3: words of next year"
    assert explain(text) == []
    message = read(text)
    assert message.stage is not None
    assert message.stage.name == "capture"
    assert main(["why", text]) == 1
    shown = capsys.readouterr().out
    assert message.stage.title in shown
    assert all(step in shown for step in message.stage.steps)


def test_a_message_that_says_nothing_comes_from_where_its_traceback_ends():
    frame = '  File "/usr/lib/python3.11/site-packages/{}", line 9, in f\n    g()\n'
    text = "Traceback (most recent call last):\n" + frame.format("onnxlab/x.py") + "{}ValueError: no"
    for path, stage in {
        "onnxruntime/quantization/calibrate.py": "quantise",
        "torch/onnx/_internal/exporter/_core.py": "translation",
        "torch/onnx/_internal/torchscript_exporter/utils.py": "torchscript",
        "onnx_ir/_core.py": "save",
    }.items():
        found = read(text.format(frame.format(path))).stage
        assert found is not None
        assert found.name == stage
    assert read(text.format("")).stage is None
    notebook = read("File ~/site-packages/onnxruntime/quantization/q.py:68, in f(x)\nAssertionError:")
    assert notebook.stage is not None  # IPython's frames
    assert notebook.stage.name == "quantise"


def test_the_frame_of_a_run_gives_operator_and_node():
    message = read(RUN.format("Foo", "words of next year"))
    assert (message.fields["op"], message.fields["node"]) == ("Foo", "/n")


@pytest.mark.slow
@pytest.mark.usefixtures("remembered_translations")
@pytest.mark.filterwarnings("ignore")  # torch warns about its own GRU and its tree specifications
def test_a_failed_decomposition_is_not_taken_for_a_failed_capture():
    class Pixels(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = torch.nn.GRU(2, 2, batch_first=True)

        def forward(self, image):
            return self.gru(image.flatten(2).transpose(1, 2))[0]

    image, auto = torch.randn(2, 2, 2, 3), torch.export.Dim.AUTO
    with pytest.raises(torch.onnx.errors.OnnxExporterError) as raised:
        torch.onnx.export(Pixels().eval(), (image,), dynamic_shapes=({2: auto, 3: auto},), verbose=False)
    text = "".join(traceback.format_exception(raised.value))
    stage = read(text).stage
    assert stage is not None
    assert stage.name == "decomposition"
    assert "keep one of the dynamic axes fixed" in explain(text)[0].fix
    # What the fix says.
    torch.onnx.export(Pixels().eval(), (image,), dynamic_shapes=({2: auto},), verbose=False)


def test_two_words_of_three_are_not_enough():
    assert explain("Deserialize failed: the size of the tensor is not known") == []


def test_each_wording_finds_its_own_kind_first_and_fills_its_answer():
    wrong = []
    for kind in answers():
        texts = [example(text) for text in kind.texts if kind.certainty != "kind"]
        for text in [*texts, *(RUN.format(operator, "words of next year") for operator in kind.operators)]:
            best = explain(text)[0]
            if (
                best.name != kind.name
                or not best.cause
                or not best.fix
                or re.search(r"\{\w+\}", best.cause + best.fix)
            ):
                wrong.append((kind.name, text, best.name, best.cause, best.fix))
    assert wrong == []


@pytest.mark.slow
def test_the_page_and_python_give_the_same_answers():
    """For every message of these tests and every wording; the fixes ask both for what is raised there."""
    for text in (
        *(text for _, _, text in THREADS),
        *(example(text) for kind in answers() for text in kind.texts),
        *(RUN.format(operator, "words") for kind in answers() for operator in kind.operators),
        *(example(frame) for stage in stages().values() for frame in stage.frames),
        *SURROUNDED,
        *(row["message"] for row in [*PUBLIC, *GIVEN]),
        'File "C:\\py\\site-packages\\onnx_ir\\_core.py", line 9, in f\n    g()\nValueError: no',
        "the cat sat on the mat",
        "",
    ):
        require_same(text)


_MESSAGE = re.compile(
    r"\b([A-Z]\w*(?:Error|Fail|InvalidArgument|NotImplemented|InvalidGraph|Warning|RuntimeException)): .{20,}"
)
_OWN_WORDS = ("AssertionError", "TypeError", "ValueError", "AttributeError", "IndexError")
"""What a recipe asserts, and what Python or NumPy say: each has words of its own."""


def messages_of(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the error messages and warnings among a notebook's saved outputs."""
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    found = [match for text in texts for match in _MESSAGE.finditer(re.sub(r"\x1b\[[0-9;]*m", "", text))]
    return [match[0] for match in found if match[1] not in _OWN_WORDS]


def test_messages_of_the_saved_notebooks_have_an_answer_or_a_stage():
    pairs = [
        (path.name, text)
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for text in messages_of(nbformat.read(path, 4))
    ]
    unknown = [(name, text[:120]) for name, text in pairs if not explain(text) and not read(text).stage]
    assert len(pairs) > 50
    assert unknown == []
    assert sum(bool(explain(text)) for _, text in pairs) > 0.8 * len(
        pairs
    )  # some outputs show a heading alone


@cache
def headings(chapter: str) -> set[str]:
    cells = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", 4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return {line.lstrip("# ") for line in text.splitlines() if line.startswith("#")}


def test_every_answer_and_stage_leads_to_a_section():
    for place in (*answers(), *stages().values()):
        assert place.section in headings(place.chapter), f"{place.chapter}: {place.section}"
    assert {answer.patient for answer in answers()} - {""} <= set(patients())
    assert {answer.stage for answer in answers()} <= set(stages())


def test_a_kind_has_one_name():
    names = [answer.name for answer in answers()]
    assert sorted(set(names)) == sorted(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (THREADS[11][2], 0, "Explained in chapter 07_operator_support"),
        ("the cat sat on the mat", 1, "torch.export.export"),
    ],
)
def test_the_command_answers_an_argument_and_a_pipe(capsys, monkeypatch, text, code, says):
    assert main(["why", text]) == code
    shown = capsys.readouterr().out
    assert says in shown
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["why"]) == code
    assert capsys.readouterr().out == shown


def test_the_command_imports_nothing_heavy():
    program = (
        "import sys; from onnxlab.cli import main; main(['why', 'Invalid output name: y']);"
        "print([name for name in ('torch', 'onnx', 'numpy', 'IPython', 'nbformat') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
