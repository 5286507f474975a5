"""A record to show of the course or of a track: a page that stands alone, and a picture of its upper part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from html import escape

from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import labs
from onnxlab.kit.tracks import Track, exercise_for, title_of
from onnxlab.language import spoken_language, tr
from onnxlab.machine import environment
from onnxlab.notebook.labs.standings import is_done
from onnxlab.notebook.predict.answers import Score
from onnxlab.plain_text import columns_of, plain

_LONGEST_NAME = 60
_MARKS = {True: "\u2713", False: "\u2013"}
_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 330" role="img" fill="#1f2328" \
font-family="system-ui, sans-serif">
<title>{title}</title>
<rect x="2" y="2" width="476" height="326" rx="12" fill="#fff" stroke="#0969da"/>
<rect x="2" y="24" width="8" height="282" fill="#0969da"/>
{texts}
</svg>
"""
_PAGE = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1f2328; background: #f6f8fa; margin: 0; }}
main {{ max-width: 640px; margin: 0 auto; padding: 24px 16px 40px; }}
svg {{ display: block; width: 100%; height: auto; }}
table {{ width: 100%; border-collapse: collapse; background: #fff; margin-top: 24px; }}
td {{ border: 1px solid #d0d7de; padding: 6px 10px; overflow-wrap: anywhere; }}
td:last-child {{ width: 38%; }}
</style>
<main>
{picture}{tables}
</main>
</html>
"""


class NameRefused(OnnxLabError):
    """A record cannot have this name."""


@dataclass(frozen=True)
class Record:
    """What somebody has done of the course or of a track: a line, a picture (SVG), a page without scripts."""

    title: str
    picture: str
    page: str


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
    have = {
        lab: sum(points.get(exercise.id, 0) for exercise in lab.exercises)
        for lab in labs()
        if not track or lab.name in track.steps
    }
    chapters = [score for score in scores if not track or score.chapter in track.steps]
    course = track.titles[language] if track else tr("The whole course")
    sums = [tr("{n} of {count} chapters done", n=sum(map(is_done, chapters)), count=len(chapters))]
    if have:
        n, possible = sum(have.values()), sum(lab.points for lab in have)
        sums.insert(0, tr("{points} of {possible} points in the labs", points=n, possible=possible))
    if signer:
        authority = tr("Graded and signed by the class {signer}", signer=signer)
    else:
        authority = tr("The learner's own record, not signed")
    foot = [", ".join([date.today().isoformat(), *_versions()]), authority]
    rows = [(60, 18, "ONNX Lab"), (112, min(32, 720 // columns_of(name)), name), (146, 18, course)]
    rows += [(196 + 30 * number, 22, line) for number, line in enumerate(sums)]
    rows += [(282 + 22 * number, 14, line) for number, line in enumerate(foot)]
    texts = [f'<text x="32" y="{y}" font-size="{size}">{escape(text)}</text>' for y, size, text in rows]
    title = " · ".join([name, course, *sums, *foot])
    picture = _PICTURE.format(title=escape(title), texts="\n".join(texts))
    lab_rows = [
        (tr("Lab {number}: {title}", number=int(lab.name[3:5]), title=tr(lab.title)), f"{n} / {lab.points}")
        for lab, n in have.items()
    ]
    chapter_rows = [
        (f"{_MARKS[is_done(score)]} {title_of(score.chapter, language)}", _shown_by(score, signer))
        for score in chapters
    ]
    tables = "\n".join(map(_table, filter(None, (lab_rows, chapter_rows))))
    page = _PAGE.format(language=language, title=escape(title), picture=picture, tables=tables)
    return Record(title, picture, page)


@cache  # a class has many records
def _versions() -> list[str]:
    return [f"{p.name} {p.installed.partition('+')[0]}" for p in environment()[:3] if p.installed]


def _shown_by(score: Score, signer: str) -> str:
    """Return what shows how a chapter stands; predictions are the learner's word, so no class signs them."""
    if name := exercise_for(score.chapter) if score.known else "":
        return tr("known: {name}", name=name)
    return "" if signer else tr("{right} of {total} predictions right", right=score.right, total=score.total)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    return "<table>" + "\n".join(f"<tr>{row}</tr>" for row in cells) + "</table>"
