"""A learner's progress and the next hint as text, for notebooks and terminals: without torch or IPython."""

import os
from collections.abc import Sequence
from itertools import groupby

from onnxlab.errors import OnnxLabError
from onnxlab.kit import progress
from onnxlab.kit.exercise import Exercise, Lab, lab
from onnxlab.kit.progress import Standing, is_private, standings
from onnxlab.kit.solutions import solution
from onnxlab.kit.tracks import Track, UnknownTrack, short_way, tracks
from onnxlab.language import spoken_language, tr
from onnxlab.message import Message
from onnxlab.notebook.predict.answers import Score, scores
from onnxlab.tables import Table


class NoSolution(OnnxLabError):
    """No solution of a lab can be shown."""


def next_hints(record: Exercise) -> list[str]:
    """Return an exercise's hints up to the next one, and record that it was given."""
    return first_hints(record, progress.next_hint(record)[0])


def first_hints(record: Exercise, number: int) -> list[str]:
    """Return an exercise's hints up to a number."""
    texts = enumerate(record.hints[:number], 1)
    return [
        tr("Hint {place} of {count}: {words}", place=place, count=len(record.hints), words=text)
        for place, text in texts
    ]


def progress_table() -> tuple[Table, str]:
    """Return a row for each exercise, and a message if the file with the progress was damaged."""
    current, message = standings()
    columns = ("lab", "exercise", "state", "last check", "points", "hints")
    return Table(columns, tuple(map(_row, current)), progress_summary(current), bad=("tried",)), message


def progress_summary(current: Sequence[Standing]) -> str:
    """Return the points and the exercises passed, in one line: a message."""
    total = sum(standing.exercise.points for standing in current)
    have = sum(standing.points for standing in current)
    passed = sum(standing.passed for standing in current)
    return Message(
        "{have} of {total} points, {passed} of {count} exercises passed",
        have=have,
        total=total,
        passed=passed,
        count=len(current),
    )


def reading_summary() -> str:
    """Return the chapters done and the predictions answered, in one line: a message."""
    chapters = scores()
    asked = sum(score.total for score in chapters)
    return Message(
        "{done} of {count} chapters done, {answered} of {asked} predictions answered",
        done=sum(map(is_done, chapters)),
        count=len(chapters),
        answered=asked - sum(score.open for score in chapters),
        asked=asked,
    )


Step = Score | Sequence[Standing]
"""A step of the course: a chapter, or the exercises of a lab."""


def course_path(current: Sequence[Standing], only: Sequence[str] = ()) -> list[Step]:
    """Return the chapters in order, each lab after the last chapter to read before it, or a track's steps."""
    by_lab = groupby(current, key=lambda standing: standing.lab.name)
    in_labs = [list(exercises) for _, exercises in by_lab]
    path: list[Step] = []
    for score in scores():
        path.append(score)
        path += [exercises for exercises in in_labs if exercises[0].lab.after == score.chapter]
    if not only:
        return path
    by_name = {step.chapter if isinstance(step, Score) else step[0].lab.name: step for step in path}
    return [by_name[name] for name in only]


def followed_path(current: Sequence[Standing]) -> list[Step]:
    """Return the path of the track that the learner follows; else that of the course."""
    track = followed_track()
    return course_path(current, track.steps if track else ())


def path_notes(current: Sequence[Standing]) -> list[str]:
    """Return a line on the track that is followed, and one on the chapters that are skipped, if any."""
    notes = list(filter(None, [unknown_track()]))
    if track := followed_track():
        title = track.titles[spoken_language()]
        notes.append(tr("Track: {title}, {minutes} minutes", title=title, minutes=track.minutes))
    known = [step for step in followed_path(current) if isinstance(step, Score) and step.known and step.open]
    numbers = ", ".join(score.chapter.partition("_")[0] for score in known)
    if known:
        notes.append(tr("You know these chapters, so they are skipped: {numbers}", numbers=numbers))
    return notes


def is_done(step: Step) -> bool:
    """Tell whether a chapter is known or its predictions are answered, or a lab's exercises are passed."""
    if isinstance(step, Score):
        return step.known or not step.open
    return all(standing.passed for standing in step)


def followed_track() -> Track | None:
    """Return the track that the learner follows, if any."""
    return tracks().get(progress.chosen_track())


def unknown_track() -> str:
    """Return a note where the learner has chosen a track that the course no longer has; else ""."""
    name = progress.chosen_track()
    return tr(str(UnknownTrack(name))) if name not in ("", *tracks()) else ""


def go_on(
    current: Sequence[Standing], after: Exercise | None = None, chapter: str = ""
) -> Standing | Score | None:
    """Return the exercise or the chapter to go on with, on the learner's track; None if everything is done.

    A lab that was begun comes first, the next exercise before the earlier ones. Then come the rest of the
    course's path, from where the learner stands, and what was left out before. `after` is the exercise that
    was passed just now, `chapter` the one that is being read.
    """
    path = followed_path(current)
    labs = [step for step in (course_path(current) if after else path) if not isinstance(step, Score)]
    if after is None:
        begun = [lab for lab in labs if any(standing.attempts for standing in lab) and not is_done(lab)]
    else:
        begun = [lab for lab in labs if lab[0].lab.name == after.lab and not is_done(lab)]
    if begun:
        ids = [standing.exercise.id for standing in begun[0]]
        place = ids.index(after.id) if after else 0
        return next(s for s in [*begun[0][place:], *begun[0]] if not s.passed)

    def reached(step: Step) -> bool:
        if isinstance(step, Score):
            return not after and (step.chapter == chapter or step.open < step.total)
        return step[0].lab.name == after.lab if after else any(standing.attempts for standing in step)

    place = max((number for number, step in enumerate(path) if reached(step)), default=0)
    here = path[place]
    is_read = not isinstance(here, Score) or here.chapter == chapter
    left = [step for step in [*path[place + is_read :], *path] if not is_done(step)]
    following = left[0] if left else None
    return following if following is None or isinstance(following, Score) else following[0]


def next_text(current: Sequence[Standing]) -> str:
    """Return, for a terminal, what to do next and with which commands, on the learner's track."""
    following = go_on(current)
    if following is None and followed_track():
        return tr("This track is done. The whole course again: onnxlab next --track all")
    if following is None:
        return tr(
            "Every chapter is done, and every exercise passed: {progress_summary}.",
            progress_summary=progress_summary(current),
        )
    if isinstance(following, Score):
        lines = [tr("Next: the chapter {following.chapter}.ipynb", following=following), str(following)]
        lines.append(tr(short_way(following.chapter)))
        if name := next_lab(current):
            lines.append(tr("The lab after it: onnxlab watch {name}", name=name))
        return "\n".join(lines)
    record = following.exercise
    lines = [
        exercise_text(record),
        tr("Check at each save: onnxlab watch {lab.name}", lab=following.lab),
        tr("A hint: onnxlab hint {record.id}", record=record),
    ]
    return "\n".join(lines)


def next_lab(current: Sequence[Standing]) -> str:
    """Return the lab to go on with, or the first one after the chapter to go on with; "" if there is none."""
    following = go_on(current)
    if following is None:
        return ""
    if isinstance(following, Standing):
        return following.lab.name
    path = followed_path(current)
    labs = [step for step in path[path.index(following) :] if not isinstance(step, Score)]
    return next((step[0].lab.name for step in labs if not is_done(step)), "")


def exercise_text(record: Exercise) -> str:
    """Return, for a terminal, what an exercise is and where its answer is written."""
    home = lab(record.lab)
    number = home.exercises.index(record) + 1
    lines = [
        tr("Next: {title}", title=tr(record.title)),
        tr(
            "Exercise {record.id}: {number} of {count} in this lab, {record.points} points.",
            record=record,
            number=number,
            count=len(home.exercises),
        ),
        tr(
            "Write {answers} in the notebook {lab.name}.ipynb.",
            answers=tr(" and ").join(record.answers),
            lab=home,
        ),
    ]
    return "\n".join(lines)


def solutions_text(lab: Lab) -> str:
    """Return, for a terminal, the solutions of a lab's exercises that are passed.

    Raises:
        NoSolution: If none is passed, or the solutions are not handed out.
    """
    passed = {standing.exercise.id for standing in standings()[0] if standing.passed}
    codes = {exercise.id: solution(exercise) for exercise in lab.exercises if exercise.id in passed}
    if not codes:
        then = Message("Pass one first: onnxlab check {lab.name}", lab=lab)
        raise NoSolution(
            "{lab.name} is a lab: of each exercise that is passed, a solution is shown.", "", then, lab=lab
        )
    if not any(codes.values()):
        raise NoSolution(
            "The solutions of {lab.name} are not handed out here.", "", "Ask who runs the course.", lab=lab
        )
    return "\n\n\n".join(f"# {name}\n{code}" for name, code in codes.items())


def predictions_table() -> Table | None:
    """Return a row for each chapter in which something was predicted; None without any."""
    answered = [score for score in scores() if score.open < score.total]
    rows = tuple((s.chapter, f"{s.right}/{s.total}", str(s.wrong), str(s.open)) for s in answered)
    again = Message("To be asked the wrong ones again, in a cell: from onnxlab import ask_again; ask_again()")
    caption = again if any(score.wrong for score in answered) else ""
    columns = ("chapter", "predictions right", "wrong", "open")
    return Table(columns, rows, caption) if rows else None


def shared(*, always: bool = False, terminal: bool = False) -> str:
    """Return a line on who else sees the learner's progress, and how to change that, in a terminal or a cell.

    Outside of a class nobody does: there it is empty, unless `always` is set.
    """
    if not always and "JUPYTERHUB_USER" not in os.environ:
        return ""
    if is_private():
        how = "onnxlab progress --public" if terminal else "progress(private=False)"
        return tr("The instructor's page leaves you out. To be shown there again: {how}", how=how)
    how = "onnxlab progress --private" if terminal else "progress(private=True)"
    return tr("The instructor's page shows how you stand. To be left out there: {how}", how=how)


def _row(standing: Standing) -> tuple[str, ...]:
    last = "" if standing.last is None or standing.passed else str(standing.last)
    points = Message("{standing.points} of {standing.exercise.points}", standing=standing)
    count = len(standing.exercise.hints)
    hints = Message("{standing.hints} of {count}", standing=standing, count=count) if standing.hints else ""
    return standing.lab.name, standing.exercise.id, standing.word, last, points, hints
