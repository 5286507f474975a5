"""What the course's panel in JupyterLab shows: `onnxlab/course`, a server extension.

It is a handler, as a file that the course writes could not explain an error message or give a hint. What
answers is imported for the first question and runs in a thread: the server neither starts nor answers later.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.ioloop import IOLoop

from onnxlab.errors import OnnxLabError
from onnxlab.language import LANGUAGES, speaking, speech, tr

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from onnxlab.kit.progress import Standing
    from onnxlab.notebook.labs.standings import Step
    from onnxlab.notebook.predict.answers import Score

_ONE_AT_A_TIME = ThreadPoolExecutor(1, "course-panel")  # the language that is spoken is the process's


class CourseHandler(APIHandler):  # type: ignore[misc]  # jupyter_server has no types
    """Tells how the learner stands; a POST gives a hint, follows a track, or explains an error message."""

    @web.authenticated
    async def get(self) -> None:
        """Answer with `course`."""
        await self._answer({})

    @web.authenticated
    async def post(self) -> None:
        """Answer with `course`, after what the body asks for."""
        await self._answer(self.get_json_body())

    async def _answer(self, question: Any) -> None:  # noqa: ANN401 - any JSON
        if not isinstance(question, dict) or not all(isinstance(text, str) for text in question.values()):
            raise web.HTTPError(400, "The question is an object of texts.")
        root, language = Path(self.serverapp.root_dir), self.get_query_argument("language", "en")
        try:
            reply = await IOLoop.current().run_in_executor(_ONE_AT_A_TIME, course, root, language, question)
        except OnnxLabError as error:  # a page from before an update may ask for an exercise that is gone
            raise web.HTTPError(400, str(error)) from None
        self.finish(reply)


def _load_jupyter_server_extension(server: "ServerApp") -> None:
    path = url_path_join(server.web_app.settings["base_url"], "onnxlab", "course")
    server.web_app.add_handlers(".*$", [(path, CourseHandler)])


def course(root: Path, language: str, question: dict[str, str]) -> dict[str, Any]:
    """Return what the panel shows.

    Args:
        root: The folder that JupyterLab shows: its notebooks are listed.
        language: The language of JupyterLab's menus; English where the course does not speak it.
        question: {"why": a message}, {"hint": an exercise} or {"track": its name, "" for the whole course}.
    """
    language = language if language in LANGUAGES else "en"
    with speaking(speech(language)):
        if "why" in question:
            return _why(root, language, question["why"])
        return _course(root, language, question)


def _course(root: Path, language: str, question: dict[str, str]) -> dict[str, Any]:
    from onnxlab.kit.exercise import exercise
    from onnxlab.kit.progress import choose_track, standings
    from onnxlab.kit.tracks import UnknownTrack, requested_track, tracks
    from onnxlab.notebook.labs.standings import (
        followed_path,
        followed_track,
        go_on,
        next_hints,
        progress_summary,
        reading_summary,
        unknown_track,
    )

    problem = ""
    if "track" in question:
        try:
            chosen = requested_track(question["track"])
            problem = choose_track(chosen.name if chosen else "")
        except UnknownTrack as error:
            problem = str(error)
    if "hint" in question:
        next_hints(exercise(question["hint"])[1])
    current, damaged = standings()
    track = followed_track()
    entries = (_entry(root, language, step) for step in followed_path(current))
    steps = [entry for entry in entries if entry]
    following = go_on(current)
    nothing = tr("There are no chapters in {root}. To copy the course there: onnxlab labs .", root=root)
    ways = [("", tr("The whole course"))]
    for way in tracks().values():
        title, minutes = way.titles[language], sum(_heading(root, language, step)[2] for step in way.steps)
        text = tr("{title}: {minutes} minutes", title=title, minutes=minutes) if minutes else title
        ways.append((way.name, text))
    return {
        "notes": [
            tr(note) for note in (damaged, problem or unknown_track(), "" if steps else nothing) if note
        ],
        "summary": [tr(progress_summary(current)), tr(reading_summary())] if steps else [],
        "tracks": ways,
        "track": track.name if track else "",
        "next": _next(root, language, following) if following and steps else None,
        "steps": steps,
        "words": {
            "next": tr("Go on here"),
            "hint": tr("Hint"),
            "track": tr("Track"),
            "steps": tr("Chapters and labs"),
            "why": tr("What does an error message mean?"),
            "message": tr("The message, or the whole traceback"),
            "ask": tr("What does it mean?"),
            "done": tr("done"),
            "known": tr("known"),
            "begun": tr("begun"),
            "open": tr("open"),
        },
    }


def _entry(root: Path, language: str, step: "Step") -> dict[str, Any] | None:
    """Return a chapter or a lab as an entry of the list; None if it is not in the folder."""
    from onnxlab.notebook.labs.standings import is_done
    from onnxlab.notebook.predict.answers import Score

    if isinstance(step, Score):
        name, is_begun, is_known = step.chapter, step.open < step.total, step.known and step.open > 0
        template = "{total} of {step.total} predictions answered, {step.right} right"
        note = tr(template, total=step.total - step.open, step=step) if is_begun else ""
    else:
        lab = step[0].lab
        name, is_begun, is_known = lab.name, any(standing.attempts for standing in step), False
        points = sum(standing.points for standing in step)
        note = tr("{points} of {lab.points} points", points=points, lab=lab)
    path, title, minutes = _heading(root, language, name)
    if not path:
        return None
    state = "known" if is_known else "done" if is_done(step) else "begun" if is_begun else "open"
    notes = (tr("{minutes} minutes", minutes=minutes) if minutes else "", note)
    return {"path": path, "title": title, "note": " \u00b7 ".join(filter(None, notes)), "state": state}


def _next(root: Path, language: str, following: "Standing | Score") -> dict[str, Any] | None:
    """Return what to go on with: a chapter and how to skip it, or an exercise and the hints given for it."""
    from onnxlab.kit.progress import Standing
    from onnxlab.kit.tracks import short_way
    from onnxlab.notebook.labs.places import place
    from onnxlab.notebook.labs.standings import first_hints

    if not isinstance(following, Standing):
        chapter = _entry(root, language, following)
        return chapter and {**chapter, "hints": [tr(short_way(following.chapter))]}
    record = following.exercise
    path, lab, _ = _heading(root, language, following.lab.name)
    if not path:
        return None
    return {
        "path": path,
        "place": place(root / path, record.id),
        "title": tr(record.title),
        "note": lab,
        "state": "begun" if following.attempts else "open",
        "exercise": record.id if following.hints < len(record.hints) else "",
        "hints": first_hints(record, following.hints),
    }


def _why(root: Path, language: str, message: str) -> dict[str, Any]:
    from onnxlab.diagnosis.messages import explained
    from onnxlab.notebook.labs.places import place
    from onnxlab.notebook.message_text import message_text

    said = message_text(message)
    answer: dict[str, Any] = {"before": said.before, "after": said.after}
    if said.place and (path := _heading(root, language, said.place[0])[0]):
        chapter = {"path": path, "place": place(root / path, section=said.place[1])}
        answer["chapter"] = {**chapter, "title": tr(explained(*said.place))}
    return answer


def _heading(root: Path, language: str, name: str) -> tuple[str, str, int]:
    """Return a notebook's path below the folder, "" if it is not there, its heading and its minutes."""
    from onnxlab.kit.tracks import notebook_of

    path = notebook_of(name)
    for edition in (path.parent / language / path.name, path):
        try:
            if (root / edition).is_file():  # reading a pipe would wait for ever
                title, minutes = _read(root / edition, (root / edition).stat().st_mtime_ns)
                return edition.as_posix(), title or name, minutes
        except OSError:
            continue
        except (ValueError, LookupError, TypeError, RecursionError):  # a learner's file may be anything
            return edition.as_posix(), name, 0
    return "", name, 0


@lru_cache(256)
def _read(notebook: Path, _changed: int) -> tuple[str, int]:
    """Return a notebook's heading and its minutes; they are read again when the file has changed."""
    from onnxlab.kit.tracks import heading_of

    return heading_of(notebook)
