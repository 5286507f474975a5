import json
import os
import sys
from pathlib import Path

import pytest

import course
from onnxlab.course.workbook import NAME, NEWS
from starter import jupyter
from starter.commands import chosen_folder, run
from starter.console import Stop, show_line, speak, step
from starter.environment import ROOT, Environment, child_variables
from starter.packages import failure
from tests.support.chinese import english_in

HERE = Environment(Path(sys.prefix), Path(sys.executable), managed=False)


def test_options_go_to_jupyterlab_as_they_are():
    command = jupyter.command(HERE, ["--no-browser", "--ServerApp.base_url=/x/"])
    assert command[-2:] == ["--no-browser", "--ServerApp.base_url=/x/"]


@pytest.mark.parametrize("option", ["--ServerApp.root_dir=/x", "--notebook-dir=/x", "--LabApp.root_dir=/x"])
def test_what_a_person_says_is_not_said_a_second_time(option):
    command = jupyter.command(HERE, [option])
    assert not any("root_dir" in part for part in command if part != option)
    assert any("news_url=None" in part for part in command)
    assert jupyter.names_a_root([option])
    assert not jupyter.names_a_root(["--no-browser", "--port=1"])


def test_what_is_trusted_is_recorded_in_the_course_s_own_environment():
    [option] = [
        part for part in jupyter.command(Environment(Path("x"), Path("x/python")), []) if "Notary" in part
    ]
    assert option == f"--NotebookNotary.data_dir={Path('x', 'share', 'jupyter')}"
    assert not any("Notary" in part for part in jupyter.command(HERE, []))


def test_a_language_opens_its_first_chapter_and_is_set_in_the_terminals(tmp_path):
    english, chinese = (jupyter.command(HERE, [], language, tmp_path) for language in ("en", "zh"))
    assert any("notebooks/00_start" in part for part in english)
    assert any("notebooks/zh/00_start" in part for part in chinese)
    assert child_variables(HERE, "zh")["ONNXLAB_LANGUAGE"] == "zh"
    assert child_variables(HERE)["ONNXLAB_LANGUAGE"] == "en"  # whatever the system's locale is


def test_jupyterlab_speaks_the_language_of_the_course():
    [folder] = [part for part in jupyter.command(HERE, [], "zh") if "app_settings_dir" in part]
    own = Path(folder.partition("=")[2])
    english = own.parent
    settings = {path: json.loads((path / "overrides.json").read_text("utf-8")) for path in (own, english)}
    assert settings[own].pop("@jupyterlab/translation-extension:plugin") == {"locale": "zh_CN"}
    assert settings[own] == settings[english]
    assert (own / "page_config.json").read_bytes() == (english / "page_config.json").read_bytes()
    pins = (ROOT / "requirements.txt").read_text()
    assert "\njupyterlab-language-pack-zh-cn==" in pins


@pytest.fixture
def chinese():
    speak("zh")
    yield
    speak("en")


def test_the_terminal_speaks_chinese_before_anything_is_installed(chinese, capsys):
    step(3, "Packages (the first time this takes some minutes)")
    show_line("      nothing to install")
    with pytest.raises(Stop) as stop:
        jupyter.require_free_port(["--port=99999"])
    with pytest.raises(Stop) as other:
        chosen_folder(["--folder"])
    full = failure("ERROR: Errno 28", Path("a.log"))
    text = "\n".join([capsys.readouterr().out, str(stop.value), str(other.value), str(full)])
    assert english_in(text) == []
    assert "--port" in text
    assert "a.log" in text


@pytest.mark.parametrize(
    "python", [((3, 10),), ((3, 99),), ((3, 12), False), ((3, 12), True, "Darwin x86_64")]
)
def test_course_py_says_in_chinese_why_a_python_is_not_suitable(python, chinese):
    for there in (False, True):
        english = course.unsuitable(*python, runs=lambda name, there=there: there)
        assert course.shown(english, []) == english
        assert english_in(course.shown(english, ["--language", "zh"])) == []


@pytest.mark.parametrize("option", ["--folder=~/x", "--folder=/x/y", "--folder"])
def test_a_folder_of_the_learners_is_the_root(option):
    if option == "--folder":
        with pytest.raises(Stop, match="names no folder"):
            chosen_folder([option])
        return
    folder, rest = chosen_folder(["--no-browser", option])
    assert rest == ["--no-browser"]
    assert folder == Path(option.partition("=")[2]).expanduser()
    assert f"--ServerApp.root_dir={folder}" in jupyter.command(HERE, rest, "en", folder)
    assert f"--ServerApp.root_dir={ROOT / NAME}" in jupyter.command(HERE, [])


@pytest.mark.parametrize("options", [["--language", "fr"], ["class", "folder", "--language=fr"]])
def test_a_language_that_is_not_there_is_said_in_three_lines(options, capsys):
    assert run(options) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert "fr" in said[0]


@pytest.mark.parametrize(("spoken", "lines"), [("zh_CN.UTF-8", 1), ("de_DE.UTF-8", 0)])
def test_a_chinese_system_gets_the_chinese_edition_and_learns_of_the_english_one(
    spoken, lines, monkeypatch, capsys
):
    monkeypatch.delenv("ONNXLAB_LANGUAGE")
    monkeypatch.setenv("LC_ALL", spoken)
    no_port = "--port=none"  # ends the command before anything is installed
    assert run([no_port]) == 2
    assert capsys.readouterr().out.count("--language en") == lines
    assert run(["--language", "en", no_port]) == 2
    assert capsys.readouterr().out == ""


def opened(folder, language="en"):
    [option] = [part for part in jupyter.command(HERE, [], language, folder) if "default_url" in part]
    return option.partition("=")[2]


def test_a_second_start_opens_where_one_was(tmp_path):
    first = "/lab/tree/notebooks/00_start_here.ipynb"
    assert opened(tmp_path) == first
    [option] = [part for part in jupyter.command(HERE, [], "en", tmp_path) if "workspaces_dir" in part]
    workspace = Path(option.partition("=")[2]) / "default-37a8.jupyterlab-workspace"
    assert workspace.is_relative_to(tmp_path)  # another folder, or language, has its own
    workspace.parent.mkdir(parents=True)
    workspace.write_text('{"data": {}}')
    assert opened(tmp_path) == first  # no notebook is open
    workspace.write_text('{"data": {"notebook:labs/lab04_asinh.ipynb": {}}}')
    assert opened(tmp_path) == "/lab"
    assert opened(tmp_path, "zh") == first.replace("notebooks/", "notebooks/zh/")
    assert f"--LabApp.default_url={first}" in jupyter.command(HERE, ["--notebook-dir=."])


def test_what_an_update_changed_is_opened_once(tmp_path):
    assert NEWS.name == jupyter.NEWS
    (tmp_path / NEWS).write_text("# News")
    assert opened(tmp_path) == f"/lab/tree/{NEWS}"
    workspace = tmp_path / ".onnxlab" / "workspaces" / "en" / "default-37a8.jupyterlab-workspace"
    workspace.parent.mkdir(parents=True)
    workspace.write_text('{"data": {"notebook:labs/lab04_asinh.ipynb": {}}}')
    os.utime(workspace, (1, 1))
    assert opened(tmp_path) == f"/lab/tree/{NEWS}"
    os.utime(tmp_path / NEWS, (0, 0))
    assert opened(tmp_path) == "/lab"


def test_a_port_that_was_asked_for_is_the_one_or_none():
    assert "--ServerApp.port_retries=0" in jupyter.command(HERE, ["--port=9000"])
    assert "--ServerApp.port_retries=0" not in jupyter.command(HERE, ["--ServerApp.port_retries=3"])


@pytest.mark.parametrize("option", [["--port={}"], ["--port", "{}", "--no-browser"], ["--ServerApp.port={}"]])
@pytest.mark.parametrize("address", [[], ["--ip=127.0.0.1"], ["--ip", "localhost"]])
def test_a_port_in_use_is_said_in_three_lines(used_port, option, address):
    with pytest.raises(Stop, match=f"Port {used_port} cannot be used") as stop:
        jupyter.require_free_port([*(part.format(used_port) for part in option), *address])
    assert len(str(stop.value).splitlines()) == 3


@pytest.mark.parametrize("port", ["70000", "0", "abc", "9000.5", "-1"])
def test_what_is_no_port_is_said_in_three_lines(port):
    with pytest.raises(Stop, match="is not a port") as stop:
        jupyter.require_free_port([f"--port={port}"])
    assert len(str(stop.value).splitlines()) == 3


@pytest.mark.parametrize("options", [[], ["--no-browser"], ["--ServerApp.port_retries=3"], ["--ip=0.0.0.0"]])
def test_without_a_port_there_is_nothing_to_find_out(options):
    jupyter.require_free_port(options)
