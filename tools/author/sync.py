"""`python -m tools.author sync`: makes labs/ from solutions/, and the list of the chapters' predictions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from onnxlab import judges
from onnxlab.course.lab_release import LabNotInSync, release, stamp, worked_in
from onnxlab.course.notebooks import Notebook, read, write
from onnxlab.kit.exercise import lab, labs
from tools.author.predictions import LIST, is_current, write_predictions

_BETWEEN = re.compile(r"(?<=### BEGIN SOLUTION\n).*?(?=[ \t]*### END SOLUTION)", re.DOTALL)


def sync(root: Path) -> list[Path]:
    """Stamp every solution and make its lab, below a repository's root; return the files that changed.

    A lab in which somebody has worked (it has outputs) is left alone.
    """
    changed = [LIST] if write_predictions(root) else []
    for path, text in _counted(root):
        path.write_text(text, "utf-8")
        changed.append(path)
    for solution in _solutions(root):
        stamped = stamp(_solved(read(solution), solution.stem), solution.stem)
        if write(stamped, solution):
            changed.append(solution)
        handed_out = root / "labs" / solution.name
        handed_out.parent.mkdir(exist_ok=True)
        if handed_out.exists() and worked_in(read(handed_out)):
            continue
        if write(release(stamped), handed_out):
            changed.append(handed_out)
    return changed


def out_of_sync(root: Path) -> list[str]:
    """Return what `sync` would change or cannot repair; nothing is written."""
    differences = [] if is_current(root) else [f"{LIST} is not what the chapters ask"]
    differences += [f"{path.relative_to(root)}: minutes or points of the labs" for path, _ in _counted(root)]
    names = set()
    for solution in _solutions(root):
        names.add(solution.name)
        stamped = stamp(_solved(read(solution), solution.stem), solution.stem)
        if stamped != read(solution):
            differences.append(f"solutions/{solution.name}: its metadata or solutions are not up to date")
        handed_out = root / "labs" / solution.name
        if not handed_out.exists():
            differences.append(f"labs/{solution.name} is missing")
        elif read(handed_out) != release(stamped):
            differences.append(f"labs/{solution.name} is not what the solution gives")
    extra = sorted(path.name for path in (root / "labs").glob("*.ipynb") if path.name not in names)
    return [*differences, *(f"labs/{name} has no solution" for name in extra)]


def _counted(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the guides whose minutes and points are not those of the labs, and what they should say."""
    for path in (*root.glob("labs/README*.md"), *root.glob("packages/onnxlab-class/docs/instructor*.md")):
        text = before = path.read_text("utf-8")
        for record in labs():
            row = re.compile(rf"^(\| {record.name[:5]} [^|]*\|) \d+ \| \d+ \|", re.MULTILINE)
            text = row.sub(rf"\1 {record.minutes} | {record.points} |", text)
        points = sum(record.points for record in labs())
        text = re.sub(r"\d+(?= points\. Open one| 分\W+在 \[`zh/`\])", str(points), text)
        if text != before:
            yield path, text


def _solved(notebook: Notebook, name: str) -> Notebook:
    """Return a notebook of solutions with the code of the judges' own: functions with an answer's name."""
    for exercise in lab(name).exercises:
        source_path = Path(judges.__path__[0], *exercise.module.split(".")).with_suffix(".py")
        source = source_path.read_text("utf-8")
        for function in ast.parse(source).body:
            if not isinstance(function, ast.FunctionDef) or function.name not in exercise.answers:
                continue
            body = "\n".join(source.splitlines()[function.body[1].lineno - 1 : function.end_lineno])
            cells = [cell for cell in notebook["cells"] if f"def {function.name}(" in cell["source"]]
            places = [cell for cell in cells if _BETWEEN.search(cell["source"])]
            if not places:
                raise LabNotInSync(
                    f"solutions/{name}.ipynb has no place for the solution {function.name}().",
                    f"It is written from {source_path.relative_to(source_path.parents[3])}.",
                    "Put the lines ### BEGIN SOLUTION and ### END SOLUTION into the function's body.",
                )
            for cell in places:
                cell["source"] = _BETWEEN.sub(lambda _: f"{body}\n", cell["source"], count=1)  # noqa: B023 - called at once
    return notebook


def _solutions(root: Path) -> Iterator[Path]:
    paths = sorted((root / "solutions").glob("lab*.ipynb"))
    if not paths:
        raise LabNotInSync(f"There are no solutions below {root}.", "", "Run this in the course's folder.")
    yield from paths
