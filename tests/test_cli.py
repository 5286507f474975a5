"""The command line: messages, exit codes and wrong usage."""

import contextlib
import http.client
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import unicodedata
from importlib.metadata import EntryPoint, EntryPoints, version
from pathlib import Path
from subprocess import PIPE

import nbformat
import onnx
import pytest

from onnxlab.cli import main
from onnxlab.cli.terminal import plain_streams
from onnxlab.kit.exercise import exercise, lab
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.kit.progress import record
from onnxlab.kit.tracks import tracks
from onnxlab.language import speak
from tests.support.ctrl_c import hear_ctrl_c
from tests.support.graph_models import chain

ROOT = Path(__file__).parents[1]


def test_progress_private_and_public(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    assert main(["progress", "--private"]) == 0
    assert "leaves you out. To be shown there again: onnxlab progress --public\n" in capsys.readouterr().out
    assert main(["progress", "--public"]) == 0
    assert (
        "shows how you stand. To be left out there: onnxlab progress --private\n" in capsys.readouterr().out
    )
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "file" / "progress.json"))
    assert main(["progress", "--private"]) == 1
    assert "Progress is not kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "command", "says"),
    [
        (
            ["grade", "taken", "--out", "r", "--seed", "abc"],
            "onnxlab grade",
            "--seed: invalid int value: 'abc'",
        ),
        (["grade", "taken"], "onnxlab grade", "required: --out"),
        (["grade", "taken", "--out", "r", "--seeds", "7"], "onnxlab grade", "arguments: --seeds 7"),
        (["class", "serve", "c", "--isolation", "some"], "onnxlab class serve", "invalid choice: 'some'"),
        (["class", "close"], "onnxlab class", "invalid choice: 'close'"),
        (["progress", "--private", "--public"], "onnxlab progress", "not allowed with argument --private"),
        (["mark"], "onnxlab", "invalid choice: 'mark'"),
        (["docter"], "onnxlab", "invalid choice: 'docter'. Did you mean 'doctor'?"),
        (["class", "tkae"], "onnxlab class", "Did you mean 'take'?"),
        (["doctor", "m.onnx", "--agianst=a:b"], "onnxlab doctor", "Did you mean '--against'?"),
    ],
)
def test_wrong_usage_gets_three_lines(capsys, arguments, command, says):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{command}: ")
    assert says in first
    assert last == f"See: {command} --help"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--language", "zh", "why", "no such message"],
        ["why", "no such message", "--language", "zh"],
        ["--language=zh", "doctor", "missing.onnx"],
        ["--language", "zh", "next"],
        ["--language", "zh", "hint", "asinh"],
        ["--language", "zh", "check", "lab99"],
        ["--language", "zh", "progress"],
    ],
    ids=" ".join,
)
def test_every_command_speaks_the_language_that_it_is_given(arguments, capsys):
    try:
        main(arguments)
    finally:
        speak("en")
    said = capsys.readouterr()
    assert re.search("[\u4e00-\u9fff]", said.out + said.err)


def test_a_language_that_is_not_spoken_is_refused_before_anything_else(monkeypatch, capsys):
    assert main(["--language", "fr", "doctor", "missing.onnx"]) == 2
    monkeypatch.setenv("ONNXLAB_LANGUAGE", "fr")
    assert main(["--help"]) == 2
    refused = capsys.readouterr().err
    assert refused.count("Its languages are en, zh.") == 2


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert all(command in shown for command in ("labs", "check", "progress", "grade", "class"))
    assert "needs onnxlab-class" not in shown


@pytest.mark.parametrize("left", [[], ["grade = onnxlab_gone:add", "class = onnxlab_gone:add"]])
@pytest.mark.parametrize("arguments", [["grade", "taken", "--out", "r"], ["class", "--help"], ["grade"]])
def test_without_onnxlab_class_its_commands_say_what_to_install(monkeypatch, capsys, arguments, left):
    entries = [EntryPoint(*line.split(" = "), "onnxlab.commands") for line in left]  # its files are gone
    monkeypatch.setattr("onnxlab.cli.entry_points", lambda group: EntryPoints(entries).select(group=group))
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert f"`onnxlab {arguments[0]}` belongs to onnxlab-class, which is not installed.\n" in said
    assert "pip install -e packages/onnxlab-class" in said
    assert len(said.splitlines()) <= 3
    assert main([]) == 2
    assert re.search(r"grade +grade a class's labs \(needs onnxlab-class\)", capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [["hint", "asinh-symbolic"], ["progress"]])
def test_a_learners_commands_look_for_no_other_distribution(monkeypatch, capsys, arguments, tmp_path):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    monkeypatch.setattr("onnxlab.cli.entry_points", None)
    assert main(arguments) == 0


COMMANDS = [
    *(["labs"], ["check"], ["watch"], ["next"], ["hint"], ["progress"], ["record"], ["show"], ["reset"]),
    *(["doctor"], ["why"], ["compare"], ["open"], ["grade"], ["class"]),
    *(
        ["class", name]
        for name in ("init", "serve", "room", "wheelhouse", "take", "feedback", "record", "verify")
    ),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_has_an_example_and_exit_codes(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main(["help", *command])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"usage: onnxlab {' '.join(command)} " in shown
    assert re.search(rf"Example: .*onnxlab {' '.join(command)}", shown)
    assert "Exit codes: 0 " in shown


def test_help_alone_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["help"])
    assert ended.value.code == 0
    listed = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert {command[0] for command in COMMANDS} == set(listed)


@pytest.mark.parametrize(
    "command",
    [
        *(["doctor", "gone"], ["compare", "gone", "gone"], ["open", "gone"]),
        *(["check", "gone.ipynb"], ["watch", "gone.ipynb"], ["show", "04"], ["reset", "lab05"]),
        *(
            ["grade", "gone", "--out", "o"],
            ["class", "take", "gone", "into"],
            ["class", "feedback", "gone", "o"],
        ),
        ["class", "wheelhouse", "gone", "--check"],
        *(["class", "record", "gone", "o"], ["class", "verify", "gone", "o"]),
    ],
    ids=" ".join,
)
def test_what_is_missing_has_one_exit_code_and_nothing_is_written(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr().err
    assert 1 <= len(said.splitlines()) <= 3
    assert "run the cell" not in said


def test_why_without_a_message_says_how_to_give_one(monkeypatch, capsys):
    """From a terminal, where nothing would ever come; and from an empty pipe."""
    reader, writer = pty.openpty()
    with os.fdopen(reader), os.fdopen(writer) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(["why"]) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(["why"]) == 2
    assert capsys.readouterr().err.count("No message was given.\n") == 2


def test_a_message_from_a_pipe_may_have_bytes_that_are_no_text(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe no such message")))
    assert main(["why"]) == 1
    assert "No such message is known" in capsys.readouterr().out


HOSTILE = "\x1b[2J\x1b]0;t\x07\u202e\x9b31m\nAll is well.\n"


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A folder where all names try to command the terminal, or to look like a line of the report."""
    monkeypatch.chdir(tmp_path)
    names = {name: f"{name}{HOSTILE}" for name in ("x", "y", "node", "w")}
    node = onnx.helper.make_node("Add", [names["x"], names["w"]], [names["y"]], names["node"], domain="")
    swirl = onnx.helper.make_node(f"Swirl{HOSTILE}", [names["x"]], ["z"], domain=f"d{HOSTILE}")
    values = [
        onnx.helper.make_tensor_value_info(names[name], onnx.TensorProto.FLOAT, [f"n{HOSTILE}"])
        for name in "xy"
    ]
    weight = onnx.helper.make_tensor(names["w"], onnx.TensorProto.FLOAT, [1], [float("nan")])
    graph = onnx.helper.make_graph([node, swirl], f"g{HOSTILE}", values[:1], values[1:], [weight])
    model = onnx.helper.make_model(graph, producer_name=HOSTILE)
    (tmp_path / f"m{HOSTILE}.onnx").write_bytes(model.SerializeToString())
    onnx.save(chain(), tmp_path / "chain.onnx")
    (tmp_path / f"no{HOSTILE}.onnx").write_text(HOSTILE)
    for student in (f"ada{HOSTILE}", "bob"):
        (tmp_path / "taken" / student).mkdir(parents=True)
        (tmp_path / "taken" / student / f"lab05{HOSTILE}.ipynb").write_text("no notebook")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["doctor", f"m{HOSTILE}.onnx"],
        ["doctor", f"no{HOSTILE}.onnx"],
        ["doctor", f"gone{HOSTILE}.onnx"],
        ["doctor", "gone.onnx"],
        pytest.param(["doctor", "chain.onnx", "--against", f"net{HOSTILE}:make"], marks=pytest.mark.release),
        ["compare", f"m{HOSTILE}.onnx", "chain.onnx"],
        ["compare", "chain.onnx", f"m{HOSTILE}.onnx"],
        ["compare", f"m{HOSTILE}.onnx", f"m{HOSTILE}.onnx"],
        ["why", f"Exporting the operator 'aten::a{HOSTILE}' to ONNX opset version 17 is not supported."],
        ["why", f"unknown {HOSTILE}"],
        ["open", f"no{HOSTILE}.onnx"],
        ["check", f"lab05{HOSTILE}.ipynb"],
        ["check", f"taken/ada{HOSTILE}"],
        ["check", f"taken/ada{HOSTILE}/lab05{HOSTILE}.ipynb"],
        ["watch", f"lab{HOSTILE}.ipynb"],
        ["hint", f"asinh{HOSTILE}"],
        ["show", f"04{HOSTILE}"],
        ["reset", f"lab05{HOSTILE}"],
        ["labs", f"mine{HOSTILE}"],
        pytest.param(["grade", "taken", "--out", f"out{HOSTILE}"], marks=pytest.mark.release),
        ["grade", f"gone{HOSTILE}", "--out", "o"],
        pytest.param(["class", "init", f"class{HOSTILE}"], marks=pytest.mark.release),
        ["class", "take", "taken", f"into{HOSTILE}"],
        ["class", "feedback", f"taken{HOSTILE}", "out"],
        ["class", "wheelhouse", f"house{HOSTILE}", "--check"],
        ["class", "room", f"room{HOSTILE}", "--no-browser"],
        [f"doc{HOSTILE}"],
        ["doctor", "chain.onnx", f"--{HOSTILE}"],
        ["compare", "chain.onnx", "chain.onnx", "--atol", HOSTILE],
    ],
    ids=lambda command: " ".join(command).replace(HOSTILE, "*"),
)
def test_no_name_commands_the_terminal_or_makes_a_line_of_its_own(hostile, capsys, command):
    try:
        code = main(command)
    except SystemExit as ended:
        code = ended.code
    printed = capsys.readouterr()
    shown = printed.out + printed.err
    assert code in (0, 1, 2)
    assert not {character for character in shown if unicodedata.category(character) in ("Cc", "Cf")} - {"\n"}
    assert "All is well." not in shown.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
@pytest.mark.parametrize("command", ["doctor", "open", "compare", "check"])
def test_a_file_whose_name_is_no_text_has_a_message(tmp_path, monkeypatch, capsys, command):
    broken = os.fsdecode(b"\xff.onnx")
    (tmp_path / broken).write_text("no model")
    monkeypatch.chdir(tmp_path)
    assert main([command, broken, broken] if command == "compare" else [command, broken]) == 2
    assert "\ufffd.onnx" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_terminal_gets_colours_and_links_of_ours_and_none_of_the_files(hostile, term, monkeypatch):
    """In a learner's folder the section is a link; a dumb terminal gets the text alone."""
    (hostile / "notebooks").mkdir()
    (hostile / "labs").mkdir()
    (hostile / "labs" / "lab04_asinh.ipynb").touch()
    for name in ("16_half_precision", "13_ship_it", "08_custom_operators", "11_graph_surgery"):
        (hostile / "notebooks" / f"{name}.ipynb").touch()
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "onnxlab.cli", "doctor", f"m{HOSTILE}.onnx"]
    done = subprocess.run(command, stdout=writer, stderr=writer, env=os.environ | {"TERM": term})
    os.close(writer)
    shown = b""
    with contextlib.suppress(OSError):  # what Linux says at the end
        while part := os.read(reader, 1 << 16):
            shown += part
    os.close(reader)
    text = shown.decode()
    assert done.returncode == 1
    assert "All is well." not in [line.strip() for line in text.splitlines()]
    assert "onnxlab show 16" in text
    if term == "dumb":
        assert "\x1b" not in text
    else:
        link = f"\x1b]8;;{(hostile / 'notebooks' / '16_half_precision.ipynb').as_uri()}\x1b\\Explained in"
        assert link in text
        ours = re.sub(r"\x1b\[(0|31|33|36)m|\x1b\]8;;(file://[!-~]*)?\x1b\\|\r\x1b\[K|\r\n", "", text)
        assert not {character for character in ours if unicodedata.category(character) in ("Cc", "Cf")}


def test_whatever_a_command_prints_cannot_command_the_terminal(capsys):
    with plain_streams():
        print(HOSTILE, HOSTILE, file=sys.stderr)
        print(HOSTILE)
    said = "".join(capsys.readouterr())
    assert "All is well." in said
    assert not {character for character in said if unicodedata.category(character) in ("Cc", "Cf")} - {"\n"}


def test_the_version_is_said(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"onnxlab {version('onnxlab')}\n"


def test_the_labs_of_a_folder_are_checked_without_earlier_copies(tmp_path, capsys):
    for name in ("lab05-before-reset_mine.ipynb", "lab5_mine.ipynb"):
        (tmp_path / name).write_text("no notebook")
    assert main(["check", str(tmp_path)]) == 2
    assert "lab5_mine.ipynb is not a Jupyter notebook" in capsys.readouterr().err


def test_copied_chapters_are_where_to_begin(tmp_path, capsys):
    assert main(["labs", str(tmp_path)]) == 0
    assert f"To begin, open {tmp_path / 'notebooks' / '00_start_here.ipynb'}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["progress"], ["next"], ["hint", "asinh-symbolic"]])
def test_progress_and_hints_load_no_library_of_models_and_no_notebook(arguments, tmp_path):
    heavy = "{'torch', 'onnx', 'onnxruntime', 'numpy', 'IPython', 'ipywidgets'} & {*sys.modules}"
    code = f"import sys; from onnxlab.cli import main; main({arguments}); print('loaded:', {heavy})"
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"ONNXLAB_STATE": str(tmp_path / "progress.json")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search("asinh|symbolic function|Next: ", process.stdout)
    assert process.stdout.splitlines()[-1] == "loaded: set()"


@contextlib.contextmanager
def opened(folder, *names):
    """Run `onnxlab open` on models; yield its port, the process and what it said."""
    command = [sys.executable, "-m", "onnxlab.cli", "open", "--no-browser", *names]
    with subprocess.Popen(
        command, cwd=folder, stdout=PIPE, stderr=PIPE, text=True, preexec_fn=hear_ctrl_c
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline()
            port = re.search(r"http://localhost:(\d+) ", said)
            assert port, said + process.stderr.read()
            yield int(port[1]), process, said
        finally:
            process.kill()


def fetched(port, path, host=None):
    """Return the status and the body of a page."""
    connection = http.client.HTTPConnection("localhost", port, timeout=30)
    connection.request("GET", path, headers={"Host": host or f"localhost:{port}"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


needs_ctrl_c = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is no signal there")


@needs_ctrl_c
def test_open_shows_how_two_models_differ_also_without_their_weights(tmp_path):
    onnx.save(chain(), tmp_path / "a.onnx")
    onnx.save(chain(), tmp_path / "b.onnx", save_as_external_data=True, location="w", size_threshold=0)
    (tmp_path / "w").unlink(missing_ok=True)
    with opened(tmp_path, "a.onnx", "b.onnx") as (port, _, said):
        page = fetched(port, "/")[1].decode()
        assert fetched(port, "/", "elsewhere.example")[0] == 403
    assert said.startswith("a.onnx | b.onnx is at ")
    assert page.count("<img ") == 2


@needs_ctrl_c
def test_open_serves_its_model_and_weights_only_and_answers_its_own_host_only_until_ctrl_c(tmp_path):
    model = chain()
    for location in ("weights.bin", "gone.bin"):
        weight = onnx.helper.make_tensor(location, onnx.TensorProto.FLOAT, [1], bytes(4), raw=True)
        onnx.external_data_helper.set_external_data(weight, location)
        weight.ClearField("raw_data")
        model.graph.initializer.append(weight)
    folder = tmp_path / "folder"
    folder.mkdir()
    name = '"><script>alert(1)<\x2fscript> \u202e\u6a21.onnx'.replace("/", "")
    onnx.save(model, folder / name)
    (folder / "weights.bin").write_bytes(b"four")
    for private in (folder / "secret.txt", folder / ".netrc", tmp_path / "secret.txt"):
        private.write_text("secret")
    with opened(folder, name) as (port, process, said):
        page = fetched(port, "/")[1].decode()
        assert "netron" in page.lower()
        assert "<script>alert" not in page
        [address] = re.findall(r'<meta name="file" content="(.*?)">', page)
        assert fetched(port, address) == (200, (folder / name).read_bytes())
        assert fetched(port, "/data/weights.bin") == (200, b"four")
        for path in (
            "secret.txt",
            ".netrc",
            "../secret.txt",
            "%2e%2e/secret.txt",
            "",
            "./secret.txt",
            "weights.bin/..",
            "gone.bin",
        ):
            status, body = fetched(port, f"/data/{path}")
            assert (status, b"secret" in body) == (404, False), path
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]:80",
            "[::",
            "x@",
        ):
            for path in ("/", address):
                assert fetched(port, path, host)[0] == 403, host
        for host in (f"127.0.0.1:{port}", "localhost", f"LOCALHOST:{port}"):
            assert fetched(port, "/", host)[0] == 200, host
        process.send_signal(signal.SIGINT)
        process.wait(30)
        assert process.stdout.read() + process.stderr.read() == ""
    assert re.search(r"\.onnx is at http://localhost:\d+ until you press Ctrl\+C\.$", said.strip())


def test_hint_gives_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    hints = exercise("asinh-symbolic")[1].hints
    for number in (1, 2, 3, 3):
        assert main(["hint", "asinh-symbolic"]) == 0
        assert capsys.readouterr().out == f"Hint {number} of 3: {hints[number - 1]}\n"
    assert main(["hint", "asinh-symbolc"]) == 2
    assert "Did you mean 'asinh-symbolic'" in capsys.readouterr().err


def test_next_names_the_exercise_and_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    assert main(["next"]) == 0
    begin = capsys.readouterr().out.splitlines()
    assert begin[0] == "Next: the chapter 00_start_here.ipynb"
    assert begin[-1] == "The lab after it: onnxlab watch lab01_control_flow"
    first = lab("lab01").exercises[0]
    record(Outcome(first.id, Status.INCORRECT, 0, first.points))
    assert main(["next"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Next: {first.title}\n")
    assert "onnxlab watch lab01_control_flow\n" in printed
    assert f"onnxlab hint {first.id}" in printed


def test_next_follows_a_track_and_knows_its_minutes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    assert main(["next", "--track"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == list(tracks())
    for row in rows:
        steps = tracks()[row[0]].steps
        folders = [ROOT / ("labs" if step.startswith("lab") else "notebooks") for step in steps]
        files = [folder / f"{step}.ipynb" for folder, step in zip(folders, steps, strict=True)]
        said = [re.search(r"\*\*Time:\*\* (\d+) minutes", file.read_text("utf-8")) for file in files]
        assert int(row[1]) == sum(int(found[1]) for found in said if found) > 0
        assert None not in said
        assert row[0] != "two-hours" or int(row[1]) <= 120
    assert main(["next", "--track", "phone"]) == 0
    assert "Next: the chapter 04_dynamic_shapes.ipynb" in capsys.readouterr().out
    chapters = json.loads((ROOT / "src/onnxlab/assets/predictions.json").read_text("utf-8"))
    answered = {name: {"right": True} for names in chapters.values() for name in names}
    (tmp_path / "predictions.json").write_text(json.dumps(answered))
    assert main(["next"]) == 0  # the track is kept
    lab10 = lab("lab10")
    assert f"Next: {lab10.exercises[0].title}" in capsys.readouterr().out
    for one in lab10.exercises:
        record(Outcome(one.id, Status.PASSED, one.points, one.points))
    assert main(["next"]) == 0
    assert "This track is done." in capsys.readouterr().out
    assert main(["next", "--track", "al"]) == 2
    assert "The tracks are two-hours" in capsys.readouterr().err
    assert main(["next", "--track", "all"]) == 0
    assert "Track:" not in capsys.readouterr().out


@pytest.mark.slow
def test_watch_goes_from_exercise_to_exercise_by_keys(tmp_path):
    """In a terminal: a hint, the next exercise, the list, and the end; the terminal is as it was."""
    one, two = lab("lab01").exercises[:2]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    nbformat.write(notebook, tmp_path / "lab01_control_flow.ipynb")
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "onnxlab.cli", "watch", "lab01_control_flow.ipynb"]
    variables = {**os.environ, "ONNXLAB_STATE": str(tmp_path / "progress.json")}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen(command, cwd=tmp_path, env=variables, **streams)
    shown = ""

    def wait_for(text: str) -> None:
        nonlocal shown
        while text not in shown:
            assert select.select([ours], [], [], 120)[0], shown
            shown += os.read(ours, 4096).decode()
        shown = shown.partition(text)[2]

    try:
        wait_for(f"Exercise {one.id}: 1 of")
        wait_for("h: hint, n: next, l: list")
        for key, answer in ((b"h", one.hints[0][:20]), (b"n", f"Exercise {two.id}: 2 of"), (b"l", "> ")):
            os.write(ours, key)
            wait_for(answer)
        wait_for(two.id)
        wait_for(f"0 of {len(lab('lab01').exercises)} exercises")
        os.write(ours, b"q")
        assert process.wait(60) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        os.close(ours)
        os.close(theirs)
