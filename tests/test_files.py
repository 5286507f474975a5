"""Untrusted files are read without following links; files are written atomically."""

import os

import pytest

from onnxlab.files import (
    FOLDERS_STAY_OPEN,
    CannotWrite,
    FileTooLarge,
    NotRegularFile,
    open_folder,
    read_untrusted,
    remove_unfinished,
    write_atomically,
)


def test_the_content_of_a_regular_file(tmp_path):
    (tmp_path / "a").write_bytes(b"1\r\n2")
    assert read_untrusted(tmp_path / "a", 4) == b"1\r\n2"
    with pytest.raises(FileTooLarge, match="more than 3 bytes"):
        read_untrusted(tmp_path / "a", 3)
    with pytest.raises(FileNotFoundError):
        read_untrusted(tmp_path / "b", 3)


@pytest.mark.skipif(not FOLDERS_STAY_OPEN, reason="no links, pipes or open folders")
def test_links_pipes_and_folders_are_not_read(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(NotRegularFile):
            read_untrusted(tmp_path / name, 10)


@pytest.mark.skipif(not FOLDERS_STAY_OPEN, reason="no links, pipes or open folders")
def test_a_link_or_pipe_that_replaces_a_file_while_it_is_opened_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("secret")
    regular = (tmp_path / "secret").stat()
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "stat", lambda *_, **__: regular)  # as it was a moment ago
    with pytest.raises(OSError, match="symbolic link"):
        read_untrusted(tmp_path / "link", 10)
    with pytest.raises(NotRegularFile):
        read_untrusted(tmp_path / "pipe", 10)


@pytest.mark.skipif(not FOLDERS_STAY_OPEN, reason="no links, pipes or open folders")
def test_no_part_of_a_folders_path_is_a_link(tmp_path):
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "real" / "inner" / "a").write_text("1")
    (tmp_path / "link").symlink_to("real")
    with open_folder(tmp_path, "real", "inner") as folder:
        (tmp_path / "real").rename(tmp_path / "moved")
        assert read_untrusted("a", 1, folder=folder) == b"1"
    with pytest.raises(OSError, match=r"link|directory"), open_folder(tmp_path, "link", "inner"):
        pass


def test_a_file_is_complete_or_as_it_was(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "new" / "a", "text \udcff")
    assert path.read_bytes() == b"text \\udcff"
    assert path.stat().st_mode & 0o777 == (0o644 if os.name == "posix" else 0o666)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="a cannot be written: No space left on device"):
        write_atomically(path, "more")
    assert path.read_bytes() == b"text \\udcff"
    assert [entry.name for entry in path.parent.iterdir()] == ["a"]


def test_temporary_files_of_a_killed_run_are_removed(tmp_path):
    (tmp_path / ".writing-x").write_text("half")
    (tmp_path / "a").write_text("whole")
    remove_unfinished(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
