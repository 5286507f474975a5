"""An answer to an error message: its stage is read, then the kind of fault; what is of no kind is unknown.

The table (assets/messages.toml) is read by this module and by the site's why.js. A wording is literal
text with gaps: "{name}" any characters, "{n:int}" a number, "{op:word}" a word, "{x:file}" a path, "..."
anything, "<a|b>" one or the other. White space, quotation marks and capital letters do not matter.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from onnxlab.message import Message

_GAPS = {"": ".{1,120}?", "int": r"-?\d+", "word": r"[\w:]+", "file": r"[\w.+/-]*"}
_TOKEN = re.compile(r"\{(\w+)(?::(\w+))?\}|(\.\.\.)|<([^<>|]*(?:\|[^<>|]*)+)>")
_FLAGS = re.ASCII | re.DOTALL | re.IGNORECASE  # JavaScript reads the same expressions
_GAP = re.compile(r"\{(\w+)\}")
_SENTENCE_END = re.compile(r"(?<=[.?!]) +(?=[A-Z{`])")

# What is done to a text before it is read, in this order.
_CLEANING = (
    (r"\x1b\[[0-9;]*[A-Za-z]|\[\d+(?:;\d+)*m", ""),  # colours, also where the escape character was lost
    (r"\\n(?![a-z])", "\n"),  # a message that was printed as a string
    (r"\r", ""),
    (r"^(?:> |[\w.-]+ +\| |\d{4}-\d\d-\d\d[T ][\d:.,]+Z? )+", ""),  # a quotation, a log of containers
    (r'^[ \t]+File "[^\n]*\n(?:[ \t]{4,}[^\n]*(?:\n|$))*', ""),  # the frames of a traceback
)
_BEGINNING = (  # of a message, at the beginning of a line
    r"(?:[\w.]*(?:Error|Exception|Warning|Fail|InvalidArgument|NotImplemented|InvalidGraph|InvalidProtobuf"
    r"|NoSuchFile|Interrupt|Exit)\s?: |<class '|[^\n]{0,60}\[[VIWEF]:onnxruntime"
    r"|[^\n]{0,200}\.py:\d+: \w*Warning|[VIWEF]\d{4} |\[TRT\]|\d[^\n]{0,40} - (?:ERROR|WARNING) - )"
)
_OWN_LINE = re.compile(r'(?:File "([^"\n]+)"|(Cell In ?\[\d+\])), line (\d+)')
_PACKAGE = re.compile(r"(?:site|dist)-packages[\\/]([^\"\n:]+\.py)\b")
_INSTALLED = re.compile(r"site-packages|dist-packages|[\\/]lib[\\/]python|^<", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """What is known about a kind of error.

    Attributes:
        name: The kind, as "index-beyond-the-table": the address of its page.
        stage: Where it arises: the name of a `Stage`.
        texts: Its wordings, with gaps.
        cause: What it means. A sentence with a gap that the message does not fill is left out; behind " | "
            stands what is said in its place.
        fix: What helps; the same holds.
        chapter: The chapter that explains it.
        section: The heading there.
        patient: The patient of the clinic who has it, if any.
        operators: Where one of them runs, the kind is likely whatever the words.
        certainty: "message" if a wording distinguishes it; "kind" if only the kind of fault is known;
            "warning" or "wrapper" for what stands around another message, which is answered first.
    """

    name: str
    stage: str
    texts: tuple[str, ...]
    cause: str
    fix: str
    chapter: str
    section: str
    patient: str = ""
    operators: tuple[str, ...] = ()
    certainty: str = "message"

    @property
    def title(self) -> str:
        """Its heading: its first wording; the name where a few words stand for many wordings."""
        is_wording = self.texts and (self.operators or self.certainty != "kind")
        return shown(self.texts[0]) if is_wording else self.name.replace("-", " ").capitalize()

    @property
    def place(self) -> tuple[str, str]:
        """The chapter and section that explain it."""
        return self.chapter, self.section


@dataclass(frozen=True)
class Stage:
    """Where a message comes from.

    Attributes:
        name: Its name.
        title: What it is called.
        what: What is done there.
        steps: What narrows down a fault there.
        chapter: The chapter that explains it.
        section: The heading there.
        frames: What its messages are wrapped in, as wordings with gaps.
        packages: Where its code lies, for a traceback whose message says nothing.
    """

    name: str
    title: str
    what: str
    steps: tuple[str, str, str]
    chapter: str
    section: str
    frames: tuple[str, ...]
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What can be read in a message without knowing it.

    Attributes:
        stage: Where it comes from; None if nothing says so.
        fields: What its frames name: the operator, the node, a status, an opset.
        line: The last line of a traceback that is in nobody's package.
    """

    stage: Stage | None
    fields: Mapping[str, str]
    line: str


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("onnxlab") / "assets" / "messages.toml").read_text("utf-8"))


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


@cache
def answers() -> tuple[Answer, ...]:
    """Return all that is known: of two that fit one message, the first is the better."""
    return tuple(Answer(**_with_tuples(row)) for row in _table()["kind"])


@cache
def stages() -> dict[str, Stage]:
    """Return the stages by name: of two that fit one message, the first is the better."""
    return {row["name"]: Stage(**_with_tuples(row)) for row in _table()["stage"]}


def explain(text: str, most: int = 3) -> list[Answer]:
    """Return what is known about an error message, the best first; nothing if it is unknown.

    An answer that fits by its wording stands alone.

    Args:
        text: A message, or a whole traceback.
        most: The most answers.

    Example:
        >>> [answer] = explain("Actual: (tensor(int32)) , expected: (tensor(int64))")
        >>> answer.fix
        'Convert the input: x.astype(np.int64).'
    """
    ranked: dict[str, tuple[tuple[int, int, bool, int], Answer]] = {}
    for place, part in enumerate(_parts(text)):
        frames = _frames(part)
        stage, (frame, end) = next(iter(frames.items()), ("", ({}, 0)))
        for number, kind in enumerate(answers()):
            certainty, where = kind.certainty, part
            if certainty == "kind":
                where = part[end:] if kind.stage == stage else ""
            fields = next((match[0] for text in kind.texts if (match := _match(text, where))), None)
            if fields is None and kind.stage == stage and frame.get("op") in kind.operators:
                certainty, fields = "kind", {}
            rank = (_TIERS[certainty], place, certainty == "kind", number)
            if fields is not None and (kind.name not in ranked or rank < ranked[kind.name][0]):
                named = frames.get(kind.stage, ({}, 0))[0]
                ranked[kind.name] = rank, _answered(kind, certainty, {**named, **fields})
    best = [answer for _, answer in sorted(ranked.values(), key=lambda pair: pair[0])]
    return best[: 1 if best and best[0].certainty == "message" else most]


_TIERS = {"message": 0, "kind": 1, "warning": 1, "wrapper": 2}


def read(text: str) -> Reading:
    """Return what can be read in a message without knowing it.

    Example:
        >>> message = read("Non-zero status code returned while running TopK node. Status Message: ?")
        >>> message.stage.name, message.fields["op"]
        ('run', 'TopK')
    """
    places = [
        f"{path or cell}, line {line}"
        for path, cell, line in _OWN_LINE.findall(text)
        if not _INSTALLED.search(path)
    ]
    line = places[-1] if places else ""
    for part in _parts(text):
        for name, (fields, _) in _frames(part).items():
            return Reading(stages()[name], fields, line)
    # A message without a frame: which package do the last frames of its traceback lie in?
    for package in reversed(_PACKAGE.findall(text)):
        path = package.replace("\\", "/") + "/"
        for stage in stages().values():
            if any(path.startswith(begin) for begin in stage.packages):
                return Reading(stage, {}, line)
    return Reading(None, {}, line)


def shown(text: str) -> str:
    """Return a wording as it is shown to people.

    Example:
        >>> shown("<Failed|Unable> to load {file} at {n:int}")
        'Failed to load \N{HORIZONTAL ELLIPSIS} at \N{HORIZONTAL ELLIPSIS}'
    """
    return _TOKEN.sub(lambda gap: "\N{HORIZONTAL ELLIPSIS}" if gap[4] is None else gap[4].split("|")[0], text)


def script_data(translate: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the table as plain data for the site's why.js, with expressions that JavaScript reads alike."""

    def wordings(texts: tuple[str, ...]) -> list[list[Any]]:
        return [[*expression(text), _needle(text)] for text in texts]

    def translated(text: str) -> list[list[str]]:
        return [[translate(form) for form in forms] for forms in sentences(text)]

    kinds = [
        {
            "name": kind.name,
            "stage": kind.stage,
            "certainty": kind.certainty,
            "operators": kind.operators,
            "title": kind.title,
            "texts": wordings(kind.texts),
            "cause": translated(kind.cause),
            "fix": translated(kind.fix),
        }
        for kind in answers()
    ]
    steps = [
        {
            "name": stage.name,
            "title": translate(stage.title),
            "what": translate(stage.what),
            "steps": [translate(step) for step in stage.steps],
            "explained": translate(explained(stage.chapter, stage.section)),
            "page": f"notebooks/{stage.chapter}.html",
            "frames": wordings(stage.frames),
            "packages": stage.packages,
        }
        for stage in stages().values()
    ]
    rules = {"cleaning": _CLEANING, "beginning": _BEGINNING, "package": _PACKAGE.pattern}
    return {**rules, "types": _table()["types"], "stages": steps, "kinds": kinds}


def explained(chapter: str, section: str) -> str:
    """Return where something is explained, in a sentence.

    Example:
        >>> explained("04_dynamic_shapes", "2. Which sizes does each file accept?")
        'Explained in chapter 04_dynamic_shapes, section 2.'
    """
    number, point, _ = section.partition(". ")
    # The number, as the heading is Chinese in the Chinese edition.
    return (
        Message("Explained in chapter {chapter}, section {number}.", chapter=chapter, number=number)
        if point
        else Message("Explained in chapter {chapter}.", chapter=chapter)
    )


def sentences(text: str) -> list[list[str]]:
    """Return the sentences of a cause or fix, each with what may stand in its place.

    Example:
        >>> sentences("An index is too large. It is {index}. | It is not said.")
        [['An index is too large.'], ['It is {index}.', 'It is not said.']]
    """
    return [sentence.split(" | ") for sentence in _SENTENCE_END.split(text)]


@cache
def expression(text: str) -> tuple[str, tuple[str, ...]]:
    r"""Return the regular expression of a wording, a group for each gap, and the gaps' names.

    Example:
        >>> expression("{op:word} node <is|was> at {n:int}")
        ('([\\w:]+) ?node ?(?:is|was) ?at ?(-?\\d+)', ('op', 'n'))
    """
    result, names, end = "", [], 0
    for token in _TOKEN.finditer(text):
        name, kind, anything, choice = token.groups()
        result += _literal(text[end : token.start()])
        end = token.end()
        if name:
            names.append(name)
            pattern = r"[^\s'\"`]+" if end == len(text) and not kind else _GAPS[kind or ""]
            result += f"({pattern})"
        else:
            result += ".{0,400}?" if anything else f"(?:{'|'.join(map(_literal, choice.split('|')))})"
    # "DecodeError" is not the end of "UnicodeDecodeError".
    return (r"\b" if re.match(r"[\w<]", text) else "") + result + _literal(text[end:]), tuple(names)


@cache  # the module re keeps fewer than there are wordings
def _compiled(text: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    pattern, names = expression(text)
    return re.compile(pattern, _FLAGS), names


def _literal(text: str) -> str:
    return re.sub(r"\\?['\"`]", "['\"`]?", re.sub(r"[.*+?^${}()|\[\]\\/]", r"\\\g<0>", text)).replace(
        " ", " ?"
    )


@cache
def _needle(text: str) -> str:
    """The longest piece between a wording's gaps, without spaces and quotation marks: quicker to look for."""
    return max((_bare(piece) for piece in re.split(r"\{[^}]*\}|\.\.\.|<[^<>]*\|[^<>]*>", text)), key=len)


@lru_cache(16)
def _bare(text: str) -> str:
    return re.sub(r"[ '\"`]", "", text).lower()


def _match(text: str, where: str) -> tuple[dict[str, str], int] | None:
    """Return what fills the gaps of a wording, and where it ends; None if it is not there."""
    if not where or _needle(text) not in _bare(where):
        return None
    pattern, names = _compiled(text)
    if (match := pattern.search(where)) is None:
        return None
    values = {name: value.strip(" '\"`.,;:)") for name, value in zip(names, match.groups(), strict=True)}
    return {name: value for name, value in values.items() if value}, match.end()


def _parts(text: str) -> list[str]:
    """Return the messages of a text, the last first; then all of it, also without its line breaks."""
    for pattern, instead in _CLEANING:
        text = re.sub(pattern, instead, text, flags=re.ASCII | re.MULTILINE)
    begins = [
        match.start() for match in re.finditer(rf"^[ \t]*(?={_BEGINNING})", text, re.ASCII | re.MULTILINE)
    ]
    pieces = [text[begin:end] for begin, end in zip([0, *begins], [*begins, None], strict=True)]
    parts = [*reversed(pieces), text, text.replace("\n", "")]
    return list(dict.fromkeys(re.sub(r"[ \t\n\r\f\v\xa0]+", " ", part).strip(" ") for part in parts))


def _frames(part: str) -> dict[str, tuple[dict[str, str], int]]:
    """Return, for each stage whose frame a message has, what fills the frame's gaps, and where it ends."""
    found = {name: [_match(frame, part) for frame in stage.frames] for name, stage in stages().items()}
    return {name: match for name, matches in found.items() for match in matches[::-1] if match}


def _answered(kind: Answer, certainty: str, fields: Mapping[str, str]) -> Answer:
    cause, fix = _filled(kind.cause, fields), _filled(kind.fix, fields)
    return replace(kind, cause=cause, fix=fix, certainty=certainty)


def _filled(text: str, fields: Mapping[str, str]) -> str:
    """Fill the gaps of sentences; of one with other forms take the first that can be filled, else none."""
    if not _GAP.search(text):
        return text
    types = _table()["types"]
    values = {**fields, **{f"{name}_numpy": types.get(value, value) for name, value in fields.items()}}
    filled = (
        next((form for form in forms if set(_GAP.findall(form)) <= set(values)), "")
        for forms in sentences(text)
    )
    return Message.compose(" ", [Message(form, **values) for form in filled if form])
