"""In a Chinese run everything that a person reads is Chinese, but for code and quoted messages."""

import json
import re
from pathlib import Path

import pytest
from onnx.parser import parse_model

from onnxlab.cli import main
from onnxlab.language import speak, tr
from onnxlab.machine import Installed, advice
from onnxlab.notebook.doctor import doctor
from starter.commands import run
from tests.support.chinese import ascii_punctuation_in, english_in

pytestmark = [pytest.mark.slow, pytest.mark.release]

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("notebooks/zh/*.ipynb")), *sorted(ROOT.glob("labs/zh/*.ipynb"))]
TEMPLATES = ROOT / "packages/onnxlab-class/src/onnxlab_class/classroom/hub/templates"
HUB_PAGES = sorted(page for page in TEMPLATES.glob("*.html") if page.stem != "admin")  # an instructor's
# Messages of PyTorch, ONNX and ONNX Runtime in cells of tables, the poems of chapter 17, and names of layers.
QUOTED = re.compile(
    r"arg names|out of range|dim hint|dynamic axes|an implementation for|No Op registered|No ONNX function"
    r"|is not recommended|unexpected keyword|in training mode|Could not guard|Type Error|hang tremb|Neither I"
    r"|the wind|feed (?:up|down)|object has no attribute|returns? None|Adapter|is an empty sequence"
    r"|is not supported|another file|complex types|does not exist|failed"
)


@pytest.fixture(autouse=True)
def chinese(monkeypatch):
    monkeypatch.setenv("ONNXLAB_LANGUAGE", "zh")
    speak("zh")
    yield
    speak("en")


def displays(path: Path) -> list[str]:
    """Return what the course's displays say in a saved notebook; what a cell prints is the cell's own."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    ours = [one for one in data if "onnxlab-" in "".join(one.get("text/html", ""))]
    return ["".join(one["text/plain"]) for one in ours]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_saved_displays_of_a_page_are_chinese_with_full_width_punctuation(path):
    assert [found for text in displays(path) for found in ascii_punctuation_in(text)] == []
    lines = [line for text in displays(path) for line in text.split("\n") if not QUOTED.search(line)]
    assert [(line, found) for line in lines if (found := english_in(line))] == []


HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
FILES = {
    "relu": "(float[n] x) => (float[n] y) { y = Relu(x) }",
    "unread": "(float[n] x, float[n] input) => (float[n] y) { y = Relu(x) }",
    "two": "(float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }",
    "more": "(float[n] x) => (float[n] y, float[n] z) { y = Log(x) z = Neg(x) }",
    "cubic": "(float[1, 1, 4, 4] x) => (float[1, 1, a, b] y) <float[4] s = {1., 1., 2., 2.}> "
    '{ y = Resize <mode = "cubic"> (x, , s) }',
    "indices": "(float[1, 1, h, w] x) => (float[1, 1, a, b] y) "
    "{ y, i = MaxPool <kernel_shape = [2, 2]> (x) }",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, body in FILES.items():
        Path(f"{name}.onnx").write_bytes(parse_model(HEAD + body).SerializeToString())


@pytest.mark.parametrize("name", FILES)
def test_the_doctor_speaks_chinese_in_the_terminal_and_in_a_notebook(name, files, capsys):
    main(["doctor", f"{name}.onnx"])
    shown = repr(doctor(f"{name}.onnx"))
    printed = capsys.readouterr().out
    assert english_in(printed) + ascii_punctuation_in(printed) == []
    assert english_in(shown) + ascii_punctuation_in(shown) == []
    assert "\u64cd\u4f5c" not in shown.split("\n")[1]  # "what to do" is no pattern of two words and "to"
    assert "input" in shown or name != "unread"  # the name of a value


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor", "missing.onnx"],
        ["compare", "relu.onnx", "unread.onnx"],
        ["compare", "relu.onnx", "cubic.onnx"],
        ["compare", "relu.onnx", "two.onnx"],
        ["compare", "relu.onnx", "more.onnx"],
        ["why", "no such message"],
        ["why", "Failed to export: Dynamic control flow is not supported, GuardOnDataDependentSymNode"],
        ["progress"],
        ["next"],
        ["hint", "asinh-symbolic"],
        ["hint", "asinh"],
        ["check", "lab99"],
        ["reset", "04"],
        ["show", "lab05"],
        ["open", "missing.onnx"],
    ],
    ids=" ".join,
)
def test_a_command_speaks_chinese(arguments, files, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    main(arguments)
    captured = capsys.readouterr()
    assert captured.out + captured.err
    assert english_in(captured.out + captured.err) == []
    assert ascii_punctuation_in(captured.out + captured.err) == []


COMMANDS = [
    [],
    *([name] for name in ("labs", "check", "watch", "next", "hint", "progress", "show", "reset", "open")),
    *([name] for name in ("doctor", "why", "compare")),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_is_chinese(arguments, capsys):
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    usage, _, explained = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith("\u7528\u6cd5")
    assert english_in(explained) + ascii_punctuation_in(explained) == []


@pytest.mark.parametrize("arguments", [["nonsense"], ["hint"], ["progress", "--nonsense"]], ids=" ".join)
def test_a_wrong_argument_is_answered_in_chinese(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    said = capsys.readouterr().err
    assert "--help" in said
    assert english_in(said) + ascii_punctuation_in(said) == []


def test_the_help_of_the_course_is_chinese(capsys):
    assert run(["--language", "zh", "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("\u7528\u6cd5\uff1apython3 course.py")
    assert english_in(said) == []


def test_the_pages_of_the_hub_are_chinese():
    for page in HUB_PAGES:
        words = [word for _, word in re.findall(r"tr\(([\"'])(.+?)\1\)", page.read_text("utf-8"))]
        assert words
        assert [word for word in words if tr(word) == word] == []
        bare = re.sub(r"\{\{.*?\}\}|\{[%#].*?[%#]\}|<[^>]*>", "", page.read_text("utf-8"), flags=re.S)
        assert set(bare.split()) <= {"-", "ONNX", "Lab", "Lab:"}


def test_what_the_machine_advises_is_chinese():
    for installed in ("2.13.0", "2.15.0", None):
        assert english_in(tr(advice([Installed("torch", installed, "2.13.0")]))) == []
    assert english_in(tr(advice([Installed("torch", "2.13.0", None)]))) == []


def test_the_atlas_is_chinese():
    recorded = json.loads((ROOT / "src/onnxlab/assets/recorded/atlas.json").read_text("utf-8"))
    shown = {text: tr(text) for text in [*recorded["columns"], *recorded["texts"]]}
    assert [(text, said) for text, said in shown.items() if english_in(said)] == []


def test_a_traceback_of_a_notebook_ends_in_chinese():
    code = (
        "import onnxlab; onnxlab.speak('zh')\n"
        "from onnxlab import predict\n"
        "guess = predict('?', ['a', 'b'])\n"
        "guess.reveal('c')"
    )
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_cell("import onnxlab; onnxlab.speak('zh')")
        result = shell.run_cell(code)
    finally:
        shell.set_custom_exc((), None)
        InteractiveShell.clear_instance()
    assert english_in(str(result.error_in_exec)) == []
    assert "'c'" in str(result.error_in_exec)
