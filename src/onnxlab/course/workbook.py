"""The folder that `course.py` opens: a learner's own copy of the course, kept across updates.

`python -m onnxlab.course.workbook COURSE FOLDER` brings it up to date. The module imports little: `course.py`
waits for it.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from onnxlab.course.learner_folder import HANDED_OUT, FolderChanges, bring_up_to_date, course_files
from onnxlab.errors import OnnxLabError
from onnxlab.files import remove_unfinished, write_atomically
from onnxlab.language import LANGUAGES, chosen_language, speak, tr

NAME = "workbook"
"""The folder's name in a clone of the course."""

NEWS = Path("whats_new.md")
"""The page that says what the last update changed; `course.py` opens it once."""

_CHANGELOG = Path(".onnxlab", "CHANGELOG.md")  # as it was at the last start: what is not in it is new


def workbook(course: Path) -> Path | None:
    """Return the learner's folder in a clone of the course; None if there is none."""
    folder = course / NAME
    return folder if (folder / HANDED_OUT).is_file() else None


def main(arguments: list[str]) -> int:
    """Bring a learner's folder up to date; print what happened to it, and return the exit code."""
    language, _ = chosen_language()
    speak(language)
    course, folder = map(Path, arguments)
    is_new = not (folder / HANDED_OUT).exists()
    try:
        for below in folder.rglob("*/"):  # after a power cut
            remove_unfinished(below)
        files = course_files(course)
        changes = of_edition(bring_up_to_date(folder, files), language)
        news = update_changelog(course / "CHANGELOG.md", folder / _CHANGELOG)
        if changes != FolderChanges() and not is_new:
            page = news_page(changes, files, news, course)
            write_atomically(folder / NEWS, page.encode(), mode=0o600)
    except (OnnxLabError, OSError) as error:
        print(tr(str(error)), file=sys.stderr)
        return 1
    if is_new:
        print(tr("Your notebooks are in {folder}.", folder=folder))
    elif changes != FolderChanges():
        new, renewed = len(changes.added), len(changes.updated)
        print(
            tr("Your notebooks: {renewed} renewed, {new} added. Your work is kept.", renewed=renewed, new=new)
        )
        print(tr("Which, and what changed: {folder}", folder=folder / NEWS))
    for line in changes.lines():
        print(tr(line))
    return 0


def of_edition(changes: FolderChanges, language: str) -> FolderChanges:
    """Return the changes of the notebooks in one language; the folder has all editions."""

    def notebooks(names: Iterable[str]) -> tuple[str, ...]:
        read = (name for name in names if name.endswith(".ipynb"))
        return tuple(name for name in read if ({*Path(name).parts} & {*LANGUAGES} or {"en"}) == {language})

    return FolderChanges(*map(notebooks, (changes.added, changes.updated, changes.beside)))


def update_changelog(changelog: Path, seen: Path) -> list[str]:
    """Return the entries of the course's changelog that the learner has not seen, and keep it as seen."""
    text = changelog.read_text("utf-8") if changelog.is_file() else ""
    before = seen.read_text("utf-8") if seen.is_file() else text
    if not seen.is_file() or before != text:
        write_atomically(seen, text.encode(), mode=0o600)
    known = set(_entries(before))
    return [entry for entry in _entries(text) if entry not in known]


def _entries(changelog: str) -> Iterator[str]:
    for entry in re.findall(r"^- .*(?:\n  .*)*", changelog, re.MULTILINE):
        yield re.sub(r"\[([^]]*)\]\((?!http)[^)]*\)", r"\1", entry)  # such a link leads nowhere in the folder


def news_page(
    changes: FolderChanges, files: Mapping[str, bytes], entries: Iterable[str], course: Path
) -> str:
    """Return the page, in Markdown, that says which notebooks an update changed, and what is new in them."""

    def links(names: Iterable[str]) -> list[str]:
        return [f"- [{_title(files.get(name, b''), name)}]({name})" for name in names]

    beside = [f"- [{name}]({name})" for name in changes.beside]
    entries = list(entries)
    parts = [
        ([tr("# What the update changed")], [""]),
        (
            [tr("**Renewed**: you had changed nothing in them. They have no outputs: run them again.")],
            links(changes.updated),
        ),
        ([tr("**New**")], links(changes.added)),
        ([tr("**You have changed these**: yours stays as it is, and the new version is beside it.")], beside),
        ([tr("## The changelog says")], entries),
    ]
    lines = [line for head, body in parts if body for line in (*head, "", *body, "")]
    return "\n".join([*lines, tr("All changes: {course}", course=course / "CHANGELOG.md"), ""])


def _title(notebook: bytes, name: str) -> str:
    """Return a notebook's heading; its path if it has none."""
    try:
        first = "".join(json.loads(notebook)["cells"][0]["source"])
        return first.splitlines()[0].lstrip("# ")
    except (ValueError, LookupError, TypeError):
        return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
