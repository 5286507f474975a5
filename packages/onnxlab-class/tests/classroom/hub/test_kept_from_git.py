"""`git add -A` ignores the passwords, work and marks of a class in a clone."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onnxlab_class.classroom.course.folder import ClassFolder

ROOT = Path(__file__).parents[5]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/docs/*.md")])
OUTPUT_NAME = re.compile(
    r"course\.py class ([\w-]+)|class (?:serve|init|wheelhouse) (\w[\w-]*)|class take \S+ ([\w-]+)"
    r"|--out ([\w-]+)|-keyout ([\w.-]+)| -out ([\w.-]+)"
)


def test_what_the_documents_make_is_ignored():
    matches = [match for path in DOCUMENTS for match in OUTPUT_NAME.findall(path.read_text("utf-8"))]
    names = {name for match in matches for name in match if name and not name.isupper()}  # not DIR
    assert {"my-class", "results", "taken", "stick", "room.key", "room.pem"} <= names
    ignored = set((ROOT / ".gitignore").read_text("utf-8").splitlines())
    lines = {name: f"/*{Path(name).suffix}" if "." in name else f"/{name}/" for name in names}
    assert {name for name, line in lines.items() if line not in ignored} == set()


@pytest.mark.skipif(sys.platform == "win32", reason="a class is served on Linux")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_class_of_any_name_keeps_passwords_and_work_to_itself(tmp_path):
    from onnxlab_class.classroom.hub.serve import secure_folders

    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    path = tmp_path / "spring"
    path.mkdir()
    folder = ClassFolder(path, "spring", "1", "2026-11-21")
    secure_folders(folder)
    (folder.hub / "passwords.json").write_text("{}")
    (folder.learners / "ada").mkdir()
    (folder.learners / "ada" / "work.ipynb").write_text("{}")
    (path / "class.json").write_text("{}")
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.check_output(status, text=True).split() == ["??", "spring/class.json"]
    (folder.hub / ".gitignore").write_text("mine")
    secure_folders(folder)
    assert (folder.hub / ".gitignore").read_text() == "mine"
