"""When `course.py site` builds, and when it shows what was built."""

import subprocess

import pytest

from starter import website
from starter.environment import Environment


@pytest.fixture
def course_folder(tmp_path, monkeypatch):
    """A repository whose build only counts how often it was run."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "build.py").write_text("")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "00.ipynb").write_text("one")
    monkeypatch.setattr(website, "ROOT", tmp_path)
    monkeypatch.setattr(website, "FOLDER", tmp_path / "artifacts" / "site")
    monkeypatch.setattr(website, "STAMP", tmp_path / "artifacts" / "site-sources.txt")
    monkeypatch.setattr(website, "serve", lambda server: server.server_close() or 0)
    return tmp_path


@pytest.fixture
def builds(course_folder, monkeypatch):
    """The options of each build."""
    commands = []

    def build(command, **_):
        commands.append(command[3:])
        website.FOLDER.mkdir(parents=True, exist_ok=True)
        (website.FOLDER / "index.html").write_text("")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(website.subprocess, "run", build)
    return commands


def show(*options):
    return website.run(["--port", "0", *options], lambda: Environment(website.ROOT, website.ROOT / "python"))


def test_the_site_is_built_again_only_when_a_source_or_an_option_changed(course_folder, builds):
    assert show() == 0
    assert show() == 0
    assert builds == [[]]
    (course_folder / "notebooks" / "00.ipynb").write_text("two")
    assert show() == 0
    assert show("--repository", "owner/name") == 0
    assert show("--repository", "owner/name") == 0
    assert builds == [[], [], ["--repository", "owner/name"]]


def test_a_failed_build_is_repeated(course_folder, builds, monkeypatch):
    show()
    monkeypatch.setattr(website.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess("", 1))
    (course_folder / "notebooks" / "00.ipynb").write_text("two")
    assert show() == 1
    assert show() == 1
    assert not website.STAMP.exists()
