"""The command line: messages, exit codes and wrong usage."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from importlib.metadata import EntryPoint, EntryPoints, version
from subprocess import PIPE

import onnx
import pytest

from onnxlab.cli import main
from onnxlab.labs.kit.exercise import lab
from onnxlab.labs.kit.outcome import Outcome, Status
from onnxlab.labs.kit.progress import record
from tests.support.ctrl_c import hear_ctrl_c
from tests.support.graph_models import chain


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
    assert main(arguments) == 1
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


def test_the_version_is_said(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"onnxlab {version('onnxlab')}\n"


def test_reset_outside_of_a_course_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reset", "lab5"]) == 1
    assert "There are no labs in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["lab5", "lab05", "lab05_bitshift"])
def test_a_lab_is_known_by_its_number(name):
    assert lab(name).name == "lab05_bitshift"


def test_a_folder_of_labs_is_checked(tmp_path, capsys, write_notebook):
    assert main(["check", str(tmp_path)]) == 1
    assert "has no labs" in capsys.readouterr().err
    write_notebook(["pass"], "lab5_mine.ipynb")
    (tmp_path / "lab5_mine.before-reset-1.ipynb").write_text("older work")
    assert main(["check", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "uses-bitshift" in printed
    assert "before-reset" not in printed


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


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is no signal there")
def test_open_serves_a_graph_until_ctrl_c(tmp_path):
    onnx.save(chain(), tmp_path / "chain.onnx")
    command = [sys.executable, "-m", "onnxlab.cli", "open", "--no-browser", "chain.onnx"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True, preexec_fn=hear_ctrl_c
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline()
            address = re.search(r"http://\S+", said)
            assert address, said + process.stderr.read()
            with urllib.request.urlopen(address[0], timeout=30) as page:
                assert b"netron" in page.read().lower()
            process.send_signal(signal.SIGINT)
            process.wait(30)
            rest = process.stdout.read() + process.stderr.read()
        finally:
            process.kill()
    assert said.startswith("chain.onnx is at http://localhost:")
    assert rest == ""


def test_hint_gives_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    hints = lab("lab04").exercises[1].hints
    for number in (1, 2, 3, 3):
        assert main(["hint", "asinh-symbolic"]) == 0
        assert capsys.readouterr().out == f"Hint {number} of 3: {hints[number - 1]}\n"
    assert main(["hint", "asinh-symbolc"]) == 1
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
