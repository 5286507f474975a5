"""Every link that a learner meets leads somewhere, tried in the folder where that learner stands.

A learner has one of four: the workbook that course.py makes, a home of a class, what `onnxlab labs` copies
from an installed wheel, or a lone notebook in Colab.
"""

import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urljoin

import nbformat
import pytest

from onnxlab.course.colab_edition import colab_edition
from onnxlab.course.learner_folder import bring_up_to_date, course_files
from tests.test_documents import unknown

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")
# The Chinese edition follows the English one.
NOT_TRANSLATED_YET = {"notebooks/zh/00_start_here.ipynb: ../../README.zh.md#the-course"}
# The links in running notebooks, and a terminal's texts, as a learner fails and then passes each exercise.
SHOWN = """
import json, os, re, sys, tempfile
from pathlib import Path
from onnxlab.diagnosis.messages import answers
from onnxlab.kit.exercise import labs
from onnxlab.kit.outcome import Outcome
from onnxlab.kit.outcome import Status
from onnxlab.kit.progress import record, standings
from onnxlab.kit.solutions import solution
from onnxlab.notebook.labs.checks import report_text
from onnxlab.notebook.labs.next_step import progress_map, section_link, way_on
from onnxlab.notebook.labs.standings import next_text

folder = Path(sys.argv[1])
os.environ["ONNXLAB_STATE"] = str(Path(tempfile.mkdtemp(), "progress.json"))
os.chdir(tempfile.mkdtemp())  # as chapters do
links, texts, solved = {}, [], []
for lab in labs():
    os.environ["JPY_SESSION_NAME"] = str(folder / "labs" / f"{lab.name}.ipynb")
    for exercise in lab.exercises:
        for status in (Status.INCORRECT, Status.PASSED):
            outcome = Outcome(exercise.id, status, exercise.points, exercise.points)
            record(outcome)
            texts += [report_text(exercise, outcome), next_text(standings()[0])]
        links.setdefault(f"labs/{lab.name}.ipynb", []).append(way_on(lab, exercise))
        solved.append(bool(solution(exercise)))
chapters = sorted((folder / "notebooks").glob("*.ipynb"))
for chapter in chapters:
    os.environ["JPY_SESSION_NAME"] = str(chapter)
    known = answers() if chapter == chapters[0] else ()  # they lead from each chapter to the same places
    sections = [section_link(answer.chapter, answer.section) for answer in known]
    links[f"notebooks/{chapter.name}"] = [progress_map(standings()[0]), *sections]
links = {name: re.findall('href="([^"]*)"', " ".join(parts)) for name, parts in links.items()}
print(json.dumps({"links": links, "texts": texts, "solved": solved}))
"""


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workbook")
    command = [sys.executable, "-m", "onnxlab.course.workbook", str(ROOT), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def class_home(tmp_path_factory):
    pytest.importorskip("nbgrader")
    from onnxlab_class.classroom.course.folder import make_class
    from onnxlab_class.classroom.hub.serve import _hand_out

    folder = tmp_path_factory.mktemp("class")
    course = make_class(folder / "class", start=ROOT).folder
    settings = types.SimpleNamespace(handed_out=folder / "handed_out", solutions=True)
    _hand_out(course, settings)
    bring_up_to_date(folder / "home", course_files(settings.handed_out))
    return folder / "home"


@pytest.fixture(scope="module")
def from_wheel(without_course, wheel):
    without_course.install(wheel)
    without_course.run("-m", "onnxlab.cli", "labs", "course")
    return without_course.folder / "course"


@pytest.fixture(params=["workbook", "class_home", "from_wheel"])
def folder(request):
    """A folder in which learners stand."""
    return request.getfixturevalue(request.param)


def documents(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each text that a learner can open, with its path."""
    for path in sorted(folder.rglob("[!.]*")):
        if ".onnxlab" in path.parts or path.suffix not in (".ipynb", ".md"):
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        yield path, text


@cache
def sections(path: Path) -> set[str]:
    """The names of a document's sections in an address, and the cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        return {f"cell-id={cell['id']}" for cell in json.loads(text)["cells"]}
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def is_dead(link: str, start: Path) -> bool:
    """Tell whether a relative link leads nowhere from a file."""
    target, _, section = link.partition("#")
    if "://" in link or section.startswith("node="):
        return False
    path = start.parent / unquote(target) if target else start
    return not path.is_file() or bool(section and section not in sections(path))


@pytest.mark.slow
def test_every_link_of_a_text_leads_somewhere(folder):
    texts = dict(documents(folder))
    assert len(texts) > 80
    dead = {
        f"{path.relative_to(folder).as_posix()}: {link}"
        for path, text in texts.items()
        for link in LINK.findall(text)
        if is_dead(link, path)
    }
    assert not dead - NOT_TRANSLATED_YET


@pytest.mark.slow
def test_every_link_path_and_command_of_a_message_leads_somewhere(folder, without_course):
    python = without_course.python if folder.name == "course" else sys.executable
    # As the class's server sets it for every learner.
    own = {"ONNXLAB_SOLUTIONS": str(folder.parent / "handed_out/solutions")} if folder.name == "home" else {}
    command = [str(python), "-c", SHOWN, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | own, check=True)
    shown = json.loads(done.stdout)
    pages = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("labs/*.ipynb")]
    assert {Path(name).name for name in shown["links"]} == {page.name for page in pages}
    for name, links in shown["links"].items():
        assert len(links) > (40 if name.startswith("notebooks") else 0), name
        assert not [link for link in links if is_dead(link, folder / name)], name
    assert all(shown["solved"]), "after a pass everybody sees a solution"
    words = "\n".join(shown["texts"])
    for path in set(re.findall(r"[\w./-]+\.(?:ipynb|md)\b", words)):
        assert [*folder.rglob(path)], path
    commands = set(re.findall(r"onnxlab [a-z][\w -]*", words))
    assert commands
    assert not [text for text in commands if unknown(text)]


@pytest.mark.slow
def test_every_lab_imports_what_its_messages_tell_to_call(folder):
    for path in sorted((folder / "labs").glob("lab*.ipynb")):
        code = "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"])
        [imports] = re.findall(r"^from onnxlab import \(?([^()]*?)\)?$", code, re.MULTILINE)[:1]
        assert {"check", "hint"} <= {*re.findall(r"\w+", imports)}


def test_every_link_of_a_colab_edition_is_whole_and_leads_to_a_file_of_the_repository():
    home = "https://github.com/owner/name/blob/main/"
    notebooks = [path for kind in ("notebooks", "labs") for path in ROOT.glob(f"{kind}/**/*.ipynb")]
    chapters = len({*(ROOT / "notebooks").glob("*.ipynb")})
    assert len(notebooks) == 2 * (chapters + 16)
    for path in notebooks:
        name = path.relative_to(ROOT).as_posix()
        edition = colab_edition(nbformat.read(path, 4), "a.whl", address=urljoin(home, name))
        text = "\n".join(cell.source for cell in edition.cells if cell.cell_type == "markdown")
        links = [link for link in LINK.findall(text) if not link.startswith("#")]
        assert not [link for link in links if "://" not in link]
        ours = [link.removeprefix(home).partition("#")[0] for link in links if link.startswith(home)]
        assert not [link for link in ours if not (ROOT / link).is_file()]
