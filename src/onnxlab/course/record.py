"""A record to show of the course or of a track: a page that stands alone, and a picture of its upper part."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import labs
from onnxlab.kit.tracks import Track, exercise_for, title_of
from onnxlab.language import spoken_language, tr
from onnxlab.machine import environment
from onnxlab.notebook.labs.standings import is_done
from onnxlab.notebook.predict.answers import Score
from onnxlab.plain_text import columns_of, plain

_LONGEST_NAME = 60
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2328; background: #f6f8fa; margin: 0; }
main { max-width: 640px; margin: 0 auto; padding: 24px 16px 40px; }
svg { display: block; width: 100%; height: auto; }
h2 { font-size: 1.1rem; margin: 28px 0 6px; }
table { width: 100%; border-collapse: collapse; background: #fff; }
td { border: 1px solid #d0d7de; padding: 6px 10px; overflow-wrap: anywhere; }
td:last-child { width: 38%; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class NameRefused(OnnxLabError):
    """A record cannot have this name."""


@dataclass(frozen=True)
class Record:
    """What somebody has done of the course or of a track, on one day.

    Attributes:
        name: Whose it is.
        course: What it is a record of.
        labs: The title, the points and the possible points of each lab.
        chapters: The title of each chapter, whether it is done, and what shows that.
        signer: The class that signs it; "" for a learner's own.
    """

    name: str
    course: str
    labs: tuple[tuple[str, int, int], ...]
    chapters: tuple[tuple[str, bool, str], ...]
    signer: str

    @property
    def lines(self) -> list[str]:
        """What the picture says below the course's name: sums, the date, versions, who says so."""
        points, possible = (sum(lab[place] for lab in self.labs) for place in (1, 2))
        done = tr(
            "{n} of {count} chapters done", n=sum(row[1] for row in self.chapters), count=len(self.chapters)
        )
        total = tr("{points} of {possible} points in the labs", points=points, possible=possible)
        own = tr("The learner's own record, not signed")
        signed = tr("Graded and signed by the class {signer}", signer=self.signer)
        last = ", ".join([date.today().isoformat(), *_versions()])
        return [
            *([total] if possible else []),
            *([done] if self.chapters else []),
            last,
            signed if self.signer else own,
        ]

    def picture(self) -> str:
        """Return the picture, as SVG."""
        size = min(32, 720 // max(1, columns_of(self.name)))
        rows = [(60, 18, "ONNX Lab"), (112, size, self.name), (146, 18, self.course)]
        rows += [(196 + 30 * n, 22, line) for n, line in enumerate(self.lines[:-2])]
        rows += [(282 + 22 * n, 14, line) for n, line in enumerate(self.lines[-2:])]
        texts = "\n".join(
            f'<text x="32" y="{y}" font-size="{size}">{html.escape(text)}</text>' for y, size, text in rows
        )
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 330" role="img" fill="#1f2328" '
            f'font-family="system-ui, sans-serif">\n<title>{html.escape(self.title)}</title>\n'
            '<rect x="2" y="2" width="476" height="326" rx="12" fill="#fff" stroke="#0969da"/>\n'
            f'<rect x="2" y="24" width="8" height="282" fill="#0969da"/>\n{texts}\n</svg>\n'
        )

    @property
    def title(self) -> str:
        """The record in one line."""
        return " · ".join([self.name, self.course, *self.lines])

    def page(self) -> str:
        """Return the page, as HTML that loads nothing and runs nothing."""
        points = [
            (title, tr("{points} of {possible} points", points=have, possible=possible))
            for title, have, possible in self.labs
        ]
        chapters = [
            (("\u2713 " if done else "\u2013 ") + title, shown) for title, done, shown in self.chapters
        ]
        tables = [(tr("Labs"), points), (tr("Chapters"), chapters)]
        body = "\n".join(f"<h2>{html.escape(head)}</h2>\n{_table(rows)}" for head, rows in tables if rows)
        return (
            f'<!doctype html>\n<html lang="{spoken_language()}">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
            f"<body>\n<main>\n{self.picture()}{body}\n</main>\n</body>\n</html>\n"
        )


def make_record(
    name: str, points: Mapping[str, int], scores: Sequence[Score], track: Track | None, signer: str = ""
) -> Record:
    """Make a record as of today.

    Args:
        name: Whose it is.
        points: The points for each exercise.
        scores: The chapters that count, and how they stand.
        track: The track that it is of; None for the whole course.
        signer: The class that signs it.

    Raises:
        NameRefused: If the name is empty, too long, or has characters that cannot be seen.
    """
    if not name.strip() or plain(name, _LONGEST_NAME) != name:
        raise NameRefused(
            "{name} cannot be the name on a record.",
            "It takes 1 to {most} characters that can be seen.",
            'Name yourself as on a certificate: --name "Ada Lovelace"',
            name=repr(plain(name, _LONGEST_NAME)),
            most=_LONGEST_NAME,
        )
    language = spoken_language()
    return Record(
        name.strip(),
        track.titles[language] if track else tr("The whole course"),
        tuple(
            (
                f"{lab.name[3:5]} · {tr(lab.title)}",
                sum(points.get(e.id, 0) for e in lab.exercises),
                lab.points,
            )
            for lab in labs()
            if not track or lab.name in track.steps
        ),
        tuple(
            (title_of(score.chapter, language), is_done(score), _shown_by(score))
            for score in scores
            if not track or score.chapter in track.steps
        ),
        signer,
    )


@cache  # a class has many records
def _versions() -> list[str]:
    return [f"{p.name} {p.installed.partition('+')[0]}" for p in environment()[:3] if p.installed]


def _shown_by(score: Score) -> str:
    """Return what shows how a chapter stands."""
    if score.known and (name := exercise_for(score.chapter)):
        return tr("known: {name}", name=name)
    return tr("{right} of {total} predictions right", right=score.right, total=score.total)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows)
    return "<table>" + "\n".join(f"<tr>{row}</tr>" for row in cells) + "</table>"
