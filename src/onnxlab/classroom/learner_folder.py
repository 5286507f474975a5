"""A learner's own copy of the course: made, and brought up to date around what the learner changed.

`python -m onnxlab.classroom.learner_folder HOME` does it, with the course that this package runs from.
"""

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnxlab
from onnxlab.grading.plain_text import many
from onnxlab.grading.whole_files import write_whole

__all__ = ["ASSIGNMENTS", "Brought", "bring_up_to_date", "handed_out", "link_assignments"]

ASSIGNMENTS = "assignments"
"""The folder from which a learner submits: a link to each lab."""

_STATE = Path(".onnxlab", "handed_out.json")
_UNTOUCHED = Path(".onnxlab", "untouched")  # `onnxlab reset` looks there; its module is too large for here
_LINK = re.compile(rb"\]\(\.\./(lab\d\d_\w+)/\1\.ipynb\)")


@dataclass(frozen=True)
class Brought:
    """What was done in a learner's folder, as paths below it.

    Attributes:
        added: Files that were not there.
        updated: Files that the learner had not touched, and that are new now.
        beside: New versions that were put beside files in which the learner worked.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return what a learner should know."""
        return [f"A new version, beside your own: {name}" for name in self.beside]


def handed_out(course: Path, labs: Path | None = None) -> dict[str, bytes]:
    """Return what a learner gets: for each path in the folder, the content.

    Args:
        course: The course's folder, with notebooks/ and labs/.
        labs: Where released assignments are, `<lab>/<lab>.ipynb`, to hand out instead of labs/.
    """
    found = {f"notebooks/{each.name}": each.read_bytes() for each in _notebooks(course / "notebooks")}
    if labs is None:
        return found | {f"labs/{each.name}": each.read_bytes() for each in _notebooks(course / "labs")}
    for each in sorted(labs.glob("*/*.ipynb")):
        # Here all labs lie in one folder, as the chapters' links say.
        found[f"labs/{each.name}"] = _LINK.sub(rb"](\1.ipynb)", each.read_bytes())
    return found


def bring_up_to_date(home: Path, files: Mapping[str, bytes]) -> Brought:
    """Write what is missing or new into a learner's folder; nothing of theirs is overwritten.

    To be called as the learner: what lies in the folder is theirs, and may lead anywhere.

    Args:
        home: The folder.
        files: What is handed out; of `handed_out`.

    Raises:
        CannotWrite: If a file cannot be written.
    """
    before = _read_state(home)
    now: dict[str, str] = dict(before)
    added: list[str] = []
    updated: list[str] = []
    beside: list[str] = []
    for name, content in files.items():
        path, new = home / name, _digest(content)
        try:
            there: str | None = _digest(path.read_bytes())
        except FileNotFoundError:
            there = None
        except OSError:
            there = "unreadable"
        if there == new or (there is not None and before.get(name) == new):
            pass  # up to date, or the learner's work on what is still the newest
        elif there is None or there == before.get(name):
            write_whole(path, content, private=True)
            (added if there is None else updated).append(name)
        else:
            twin = _beside(path, new)
            if twin is not None:
                write_whole(twin, content, private=True)
                beside.append(str(twin.relative_to(home)))
        now[name] = new
        if name.startswith("labs/"):
            _keep_untouched(home / _UNTOUCHED / path.name, content)
    if now != before:
        write_whole(home / _STATE, json.dumps(now, indent=1), private=True)
    return Brought(tuple(added), tuple(updated), tuple(beside))


def _keep_untouched(copy: Path, content: bytes) -> None:
    if not copy.is_file() or copy.read_bytes() != content:
        write_whole(copy, content, private=True)


def link_assignments(home: Path) -> None:
    """Make the folder that is submitted for each lab: a link to the lab in which the learner works."""
    for lab in _notebooks(home / "labs"):
        if not re.fullmatch(r"lab\d\d_\w+", lab.stem):
            continue
        folder = home / ASSIGNMENTS / lab.stem
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / lab.name
        if not os.path.lexists(link):
            link.symlink_to(os.path.relpath(lab, folder))


def _beside(path: Path, new: str) -> Path | None:
    """Return where a new version goes; None if it lies beside the learner's already."""
    for number in range(1, 1000):
        suffix = "" if number == 1 else f"-{number}"
        twin = path.with_name(f"{path.stem}.new-version{suffix}{path.suffix}")
        if not os.path.lexists(twin):
            return twin
        if twin.is_file() and _digest(twin.read_bytes()) == new:
            return None
    return None


def _read_state(home: Path) -> dict[str, str]:
    try:
        found = json.loads((home / _STATE).read_text("utf-8"))
        return {str(name): str(digest) for name, digest in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}  # then every file that differs counts as the learner's


def _notebooks(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*.ipynb") if not each.name.startswith("."))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(arguments: list[str]) -> int:
    """Make or update a learner's folder, and say what was done."""
    parser = argparse.ArgumentParser(description="Copy the course into a learner's folder, or update it.")
    parser.add_argument("home", type=Path)
    own = Path(onnxlab.__file__).resolve().parents[2]
    parser.add_argument(
        "--course", type=Path, default=own, help="with notebooks/ and labs/ (default: its own)"
    )
    options = parser.parse_args(arguments)
    files = handed_out(options.course)
    if not files:
        print(f"There are no notebooks in {options.course}. Say --course.", file=sys.stderr)
        return 1
    brought = bring_up_to_date(options.home, files)
    print(f"{many(len(brought.added), 'file')} added, {len(brought.updated)} updated")
    print(*brought.lines(), sep="\n", end="\n" if brought.beside else "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
