"""The language in which the course speaks to a learner.

Everything below the notebook speaks English. Where a text is shown, it is looked up here: a message by its
template, whose gaps are looked up in turn, any other text as it stands. Only what the code of a chapter,
argparse or course.py puts together is found by a pattern. What is not found is shown in English. A word that
stands alone, as "neither", can have another translation for the texts that it stands among: the options of a
question, the headings of a table.
"""

import copy
import json
import locale
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.message import GAP, Message, fill

LANGUAGES = {"en": "English", "zh": "Chinese \u00b7 \u4e2d\u6587"}
"""English, and the languages the course is translated to, in English and with what each calls itself: a
computer may have no font for the latter."""

GRAPH_NAMES = ("{graph}",)
"""What the name of a graph stands among: it is what fills that gap of a message, too."""

AROUND = " \n\u2713\u2717~"
"""Marks and white space that may stand around a text when it is looked up."""

_PATTERN = re.compile(GAP.pattern + r"|\{\{\w+\}\}")

_FOLDER = Path(__file__).parent / "assets" / "languages"
_NAME_GAP = re.compile(r"(?:^|[_.])(?:names?|near|listing|before|after|code)(?:[_.!:]|\d*$)")
_PLURAL = re.compile(r"s\d*")  # the gap of an ending: "node{s}" does not make the name node_cond
_LOOKED_UP = ("none", "nothing")  # words that stand in the place of a name where there is none
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_FULL_WIDTH = {": ": "\uff1a", "; ": "\uff1b", ". ": "\u3002", ", ": "\u3001", " ": ""}
_SPACED = re.compile(r"(?<=[\u3400-\u9fff]) (?=[\u3400-\u9fff])")  # around a gap, for Latin letters
_AFTER_MARK = re.compile(r"(?<=[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]) ")
_WORD = re.compile(r"[A-Za-z][a-z]+")
_BETWEEN_SENTENCES = re.compile(r"(?<=[\w)][.?!]) (?=[A-Z0-9])")
_FEW = 12  # letters: a pattern with fewer of its own would match texts that were not made from it


def speak(language: str) -> None:
    """Choose the language of what ONNX Lab shows from here on, in this notebook.

    Args:
        language: "en" or "zh".

    Raises:
        OnnxLabError: The course does not speak it.
    """
    global _speech
    _speech = speech(language)
    ipython = sys.modules.get("IPython")  # is not imported: a terminal does without it
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:  # a notebook's tracebacks end in the translated message
        shell.set_custom_exc((OnnxLabError,), _show_translated)


def _show_translated(
    shell: Any,  # noqa: ANN401 - IPython's handler
    kind: type[OnnxLabError],
    error: OnnxLabError,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    error.args = (tr(str(error)),)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


@contextmanager
def speaking(words: "Speech") -> Iterator[None]:
    """Let `tr` use these translations within a block."""
    global _speech
    before, _speech = _speech, words
    try:
        yield
    finally:
        _speech = before


@contextmanager
def placed(places: Mapping[str, str]) -> Iterator[None]:
    """Let `tr` translate words as in a context, within a block."""
    words = {
        word: translation
        for word, place in places.items()
        if (translation := _speech.contexts.get(place, {}).get(word))
    }
    own = copy.copy(_speech)
    own.texts = {**own.texts, **words}
    with speaking(own):
        yield


def tr(text: str, among: Iterable[str] = (), /, **values: object) -> str:
    """Return what is shown for an English text: its translation, where there is one.

    Args:
        text: The text, with gaps such as "{name}" where there are values.
        among: The English texts that it stands among; what it is there may be translated in its own way.
        **values: What fills the gaps; a message among them is translated, too.

    >>> tr("Answer: {right}", right=1)
    'Answer: 1'
    """
    return _speech.contexts.get(context(among), {}).get(text) or _speech(Message(text, **values))


def context(among: Iterable[str]) -> str:
    """Return the name that a catalogue has for the texts among which a word stands.

    >>> context(["the first", "neither"])
    'the first | neither'
    """
    return " | ".join(among)


def joined(mark: str, parts: Iterable[str], chinese: str | None = None) -> str:
    """Join what was translated, with Chinese punctuation where a part is Chinese.

    Args:
        mark: ": ", "; ", ", " or a space.
        parts: What to join.
        chinese: The Chinese mark, where it is not the usual one: that of a comma is the mark of a list.

    >>> joined("; ", ["one", "two"]), joined("; ", ["one", "\u4e8c"])
    ('one; two', 'one\uff1b\u4e8c')
    """
    parts = list(parts)
    full_width = _FULL_WIDTH[mark] if chinese is None else chinese
    return (full_width if any(map(_CHINESE.search, parts)) else mark).join(parts)


def alternatives(texts: Iterable[str]) -> str:
    """Join what can be chosen.

    >>> alternatives(["runs", "fails"])
    'runs or fails'
    """
    return (" or " if tr("or") == "or" else " / ").join(texts)


def script_words() -> dict[str, str]:
    """Return the translations of the words in the widgets' scripts."""
    return dict(_speech.scripts)


def spoken_language() -> str:
    """Return the language that `speak` or `speaking` has chosen.

    >>> spoken_language()
    'en'
    """
    return _speech.language


def chosen_language(arguments: Iterable[str] = ()) -> tuple[str, list[str]]:
    """Take `--language` out of a command line, wherever it stands.

    Returns:
        The language that the option names, else that of ONNXLAB_LANGUAGE, else the system's where the course
        speaks it, else English; and the other arguments.

    Raises:
        OnnxLabError: The option or the variable names a language that the course does not speak.
    """
    source, name = "ONNXLAB_LANGUAGE", os.environ.get("ONNXLAB_LANGUAGE")
    rest: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument == "--":  # what follows is no option
            rest += [argument, *given]
        elif argument == "--language":
            source, name = argument, next(given, "")
        elif argument.startswith("--language="):
            source, _, name = argument.partition("=")
        else:
            rest.append(argument)
    if not name and source != "--language":
        return _system_language(), rest
    language = _of_locale(name or "")
    if language not in LANGUAGES:
        raise _unspoken(name or "", "{source} names the language.", source=source)
    return language, rest


def _unspoken(language: str, why: str = "", **values: str) -> OnnxLabError:
    return OnnxLabError(
        "ONNX Lab does not speak {language}.",
        why,
        "Its languages are {names}.",
        language=repr(language),
        names=", ".join(LANGUAGES),
        **values,
    )


def _system_language() -> str:
    """Return the language of the system's locale; English where the course does not speak it."""
    variables = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    if name := next(filter(None, variables), ""):
        language = _of_locale(name)
        return language if language in LANGUAGES else "en"
    try:
        spoken = locale.getlocale()[0] or ""  # Windows has no such variables: "Chinese (Simplified)_China"
    except ValueError:
        return "en"
    return "zh" if spoken.lower().startswith(("zh", "chinese")) else "en"


def _of_locale(name: str) -> str:
    """Return the language in the name of a locale.

    >>> _of_locale("zh_CN.UTF-8"), _of_locale("zh-Hans"), _of_locale("C.UTF-8")
    ('zh', 'zh', 'en')
    """
    language = re.split(r"[_.@-]", name.strip())[0].lower()
    return "en" if language in ("c", "posix") else language


class Speech:
    """Translations of texts.

    Args:
        texts: English texts and templates.
        patterns: Templates whose texts reach a person finished.
        scripts: Texts and templates of the widgets' scripts.
        contexts: Translations of words that stand alone, by their `context`. That of a gap is "{before}".
        language: What they are translations to.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        patterns: Mapping[str, str],
        scripts: Mapping[str, str] | None = None,
        contexts: Mapping[str, Mapping[str, str]] | None = None,
        language: str = "en",
    ) -> None:
        self.language = language
        self.texts, self.patterns, self.scripts = {**texts, **patterns}, patterns, dict(scripts or {})
        self.contexts = contexts or {}
        # Patterns with more words of their own come first: "error: no rule" before "error: {reason}".
        ranked = sorted(patterns, key=lambda text: (letters(text), len(GAP.sub("", text))), reverse=True)
        self._patterns = [
            (_longest(text), regular(text), GAP.findall(text), patterns[text]) for text in ranked
        ]

    def __call__(self, text: str) -> str:
        """Return the translation of a text; the text where there is none."""
        if isinstance(text, Message) and text.values:
            return self._say(text)
        if text.strip(AROUND) in self.texts or "\n" not in text:
            return self._shown(text)
        return "\n".join(map(self._shown, text.split("\n")))

    def _say(self, message: Message) -> str:
        """Return the translation of a message; what fills a gap of it is translated first."""
        bare = message.template.strip(AROUND)
        translation = self.texts.get(bare, "")
        if not translation and letters(bare):
            return str.__str__(message)
        before, _, after = message.template.partition(bare)
        filled = {gap: self._in_gap(gap, value) for gap, value in message.values.items()}
        if not translation:  # marks between texts, which stay unless these are Chinese
            translation = bare
            if any(map(_CHINESE.search, filled.values())):
                for mark, full_width in list(_FULL_WIDTH.items())[:-1]:
                    translation = translation.replace(mark, full_width)
                return before + _AFTER_MARK.sub("", _SPACED.sub("", fill(translation, filled))) + after
        return before + _SPACED.sub("", fill(translation, filled)) + after

    def _shown(self, text: str) -> str:
        """Return the translation of a finished text."""
        bare = text.strip(AROUND)
        shown = self.texts.get(bare)
        if not shown:
            for piece, pattern, gaps, translation in self._patterns:
                if piece in bare and (match := pattern.fullmatch(bare)):
                    sentences_in_gaps = any(map(_BETWEEN_SENTENCES.search, match.groups()))
                    if sentences_in_gaps and (shown := self._sentences(bare)):
                        break
                    values = zip(gaps, match.groups(), strict=True)
                    filled = {gap: self._in_gap(gap, value) for gap, value in values}
                    shown = _SPACED.sub("", fill(translation, filled))
                    break
        return text.replace(bare, shown or self._joined(bare)) if bare else text

    def _sentences(self, text: str) -> str:
        """Return several sentences, each translated; "" if one of them is not known."""
        sentences = _BETWEEN_SENTENCES.split(text)
        shown = list(map(self._shown, sentences)) if len(sentences) > 1 else sentences
        return "".join(shown) if all(map(str.__ne__, shown, sentences)) else ""

    def _joined(self, text: str) -> str:
        """Return what a chapter's code has joined, each part translated; a list if all of it is known."""
        if shown_sentences := self._sentences(text):
            return shown_sentences
        part = text.removesuffix(".")
        if part != text and not part.endswith(".") and (shown_part := self._joined(part)) != part:
            return f"{shown_part}\u3002"
        for mark in ("; ", ": ", ", "):
            if 0 < text.count(mark) < 100:  # what nobody wrote has more
                parts = text.split(mark, 1 if mark == ": " else -1)
                shown = list(map(self._shown, parts))
                enough = all if mark == ", " else any  # a sentence has commas, too
                if enough(map(str.__ne__, shown, parts)):
                    return joined(mark, shown)
        return text

    def _in_gap(self, gap: str, value: str) -> str:
        """Return what fills a gap; a name from a model stays, though it may look like a word."""
        if alone := self.contexts.get(f"{{{gap}}}", {}).get(value):
            return alone
        if isinstance(value, Message):
            return self(value)
        is_name = _NAME_GAP.search(gap) and value not in _LOOKED_UP
        is_names = gap == "pairs" or (is_name and not any(" " in part for part in value.split(", ")))
        return value if is_names else self(value)


def is_pattern(text: str) -> bool:
    """Tell whether a text of a catalogue is a pattern: it has gaps, or braces that only look like one.

    >>> is_pattern("{n} nodes"), is_pattern("f'{{n}}'"), is_pattern("{1, 2}")
    (True, True, False)
    """
    return bool(_PATTERN.search(text))


def letters(pattern: str) -> int:
    """Return how many letters of words a pattern has outside its gaps and its code.

    >>> letters("{what} is `not` there: {why}"), letters("{kind} {name}")
    (7, 0)
    """
    return sum(map(len, _WORD.findall(re.sub(r"`[^`]*`|" + GAP.pattern, " ", pattern))))


@cache  # `author translate` speaks with the same patterns on every page
def regular(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that a text made from a pattern matches; a group for each gap.

    >>> regular("{n} node{s}").fullmatch("1 node").groups(), regular("{n} node{s}").fullmatch("If node_cond")
    (('1', ''), None)
    """
    parts = GAP.split(pattern)
    # "{n} nodes" is no sentence that happens to end with "nodes".
    certain = letters(pattern) >= _FEW or letters(parts[0]) or ": " in "".join(parts[::2])
    gap = r"(.*?)" if certain else r"(\S*?)"
    # "what to do" is not made from "{low} to {high}": something in the text is no word.
    start = "" if certain else r"(?=.*[^a-z\s])"
    for i in range(0, len(parts), 2):
        parts[i] = re.escape(parts[i].replace("{{", "{").replace("}}", "}"))
    parts[1::2] = [r"(s?)" if _PLURAL.fullmatch(name) else gap for name in parts[1::2]]
    return re.compile(start + "".join(parts), re.DOTALL)


def _longest(pattern: str) -> str:
    """The longest piece between the gaps of a pattern: searching for it is quicker than matching."""
    return max(GAP.split(pattern)[::2], key=len).replace("{{", "{").replace("}}", "}")


@cache
def speech(language: str) -> Speech:
    """Return the translations of a language; none for English.

    Raises:
        OnnxLabError: The course does not speak it.
    """
    if language == "en":
        return Speech({}, {})
    if language not in LANGUAGES:
        raise _unspoken(language)
    return Speech(**json.loads((_FOLDER / f"{language}.json").read_text("utf-8")), language=language)


_speech = speech("en")
