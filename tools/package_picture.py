"""Draw both packages' rooms and the imports between them, as a Mermaid picture for docs/how_it_works.md.

    python tools/package_picture.py            print the picture
    python tools/package_picture.py --write    put it into docs/how_it_works.md

A room is a module or a package directly below `onnxlab` or `onnxlab_class`. An arrow goes from the room that
imports to the room that is imported; one that follows from two others is left out.
"""

import argparse
import re
import sys
from pathlib import Path

import grimp  # what import-linter reads imports with

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "how_it_works.md"
MARKED = re.compile(r"(?<=<!-- drawn by tools/package_picture.py -->\n)```mermaid\n.*?```\n", re.DOTALL)
PACKAGES = ("onnxlab_class", "onnxlab")
LEFT_OUT = {"onnxlab.assets"}  # data


def imports() -> dict[str, set[str]]:
    """Return for each room the rooms it imports."""
    graph = grimp.build_graph(*PACKAGES)
    rooms = sorted(
        name for package in PACKAGES for name in graph.find_children(package) if name not in LEFT_OUT
    )
    for room in rooms:
        graph.squash_module(room)
    return {room: graph.find_modules_directly_imported_by(room) & set(rooms) - {room} for room in rooms}


def reachable(room: str, arrows: dict[str, set[str]]) -> set[str]:
    """Return all rooms that a room imports, directly or through others."""
    rooms: set[str] = set()
    waiting = list(arrows[room])
    while waiting:
        if (name := waiting.pop()) not in rooms:
            rooms.add(name)
            waiting += arrows[name]
    return rooms


def draw() -> str:
    """Return the picture."""
    arrows = imports()
    lines = ["```mermaid", "flowchart TD"]
    for package in PACKAGES:
        rooms = (room.split(".")[1] for room in arrows if room.startswith(f"{package}."))
        lines += [f"    subgraph {package}", *(f"        {room}" for room in rooms), "    end"]
    for room, imported in arrows.items():
        short = room.split(".")[1]
        behind = {name for other in imported for name in reachable(other, arrows)}
        lines += [f"    {short} --> {other.split('.')[1]}" for other in sorted(imported - behind)]
    return "\n".join([*lines, "```", ""])


def main() -> None:
    """Print the picture, or write it into the document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put it into docs/how_it_works.md")
    if not parser.parse_args().write:
        print(draw(), end="")
        return
    text = DOCUMENT.read_text(encoding="utf-8")
    if not MARKED.search(text):
        sys.exit(f"{DOCUMENT.name} has no place for the picture: no mermaid block below '<!-- drawn by'.")
    picture = draw()
    DOCUMENT.write_text(MARKED.sub(lambda _: picture, text), encoding="utf-8")


if __name__ == "__main__":
    main()
