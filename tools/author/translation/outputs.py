"""The saved outputs of the English run: finds the texts in them, and puts translations in their place.

Only outputs of the course's own displays change; what a cell prints, and every picture, is copied.
"""

import ast
import html
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from onnxlab.language import GRAPH_NAMES, alternatives, context, joined, letters, placed, regular, tr
from onnxlab.message import GAP
from onnxlab.plain_text import aligned
from onnxlab.tables import Table

_OURS = re.compile(r'class="onnxlab-(?!message)')
_TEXT = re.compile(
    r"(<(p|li|th|td|em|caption|figcaption|pre|div)\b[^>]*>)((?:(?!</?(?!/?code>)\w).)*)(</\2>)", re.DOTALL
)
_ATTRIBUTE = re.compile(r'(<(?:img|div class="onnxlab-still")[^>]* ?(?:alt|title)=")([^"]*)(")')
_TABLE = re.compile(r'<table class="onnxlab-table">(.*?)</table>', re.DOTALL)
_GRID = re.compile(r"<table><thead>(.*?)</table>", re.DOTALL)
_CELL = re.compile(r"<(?:th|td)\b[^>]*>(.*?)</(?:th|td)>", re.DOTALL)
_LEGEND = re.compile(r"(?:(?:removed|added|changed) \(\w+\)(?:, )?)+:")
_HINT = re.compile(r"(Predict: )?Each cell: (.*)\?")
_GRAPH = re.compile(r"Graph\((.*)\)")
_ALT = re.compile(r"Graph of (.+): (.*)", re.DOTALL)  # the name may have a colon, too
_MORE = re.compile(r" and \d+ more operators$")
_NUMBERED = re.compile(r"(.+)( \(\d+\))")  # two models of one name, side by side
_EXPECTED = re.compile(r"^(  caused by \w+|\w+ \(\d+ times\)|\(\d+ more warnings? not shown\))", re.MULTILINE)
_BOX = re.compile(
    r'<(?:div class="onnxlab-(?:predict|slider)|table class="onnxlab-table|figure)(.*)', re.DOTALL
)
_SHOWN = re.compile(r"<(p(?=>)|th|td|li|caption|figcaption)\b[^>]*>(?!<(?!code>))(.*?)</\1>", re.DOTALL)
_NAME = re.compile(r"\w*[A-Z]\w*")  # of an operator, a class, a program
_OPTIONS = re.compile(r"<ul>(.*?)</ul>", re.DOTALL)
_ITEM = re.compile(r"<li>(.*?)</li>", re.DOTALL)
_CODE = re.compile(r"[_(){}\[\]=<>\\]|\w\.\w|::|\d\.\d")


_CARD = re.compile(r"^(.+ \((?:TorchScript|torch\.export)\)\n)(.+)\n(Reported in .+)$", re.MULTILINE)

ALONE = ("all three", "both", "is", "neither", "none", "nothing", "nowhere")
"""Words that need a translation of their own wherever they stand; others may have one in a catalogue."""


def translate_output(output: dict[str, Any], source: str, asked: dict[str, str]) -> None:
    """Translate, in place, the texts in an output of a cell.

    An answer repeats words of the questions above, whose contexts were asked; a question adds its own.
    """
    if output["output_type"] == "stream":
        if "expect_error(" in source or "expect_warning(" in source:
            output["text"] = _EXPECTED.sub(lambda match: tr(match[0]), output["text"])
        elif "patient(" in source:  # a card is printed
            output["text"] = _CARD.sub(lambda card: f"{card[1]}{tr(card[2])}\n{tr(card[3])}", output["text"])
        return
    data = output.get("data", {})
    markup = data.get("text/html", "")
    if not _OURS.search(markup):
        return
    own = dict(_places(markup))
    if "onnxlab-predict" in markup:
        asked |= own
    with placed(own if "onnxlab-table" in markup else asked | own):
        _translate_display(data, markup)


def _translate_display(data: dict[str, Any], markup: str) -> None:
    translated = _TEXT.sub(_translated_element, _ATTRIBUTE.sub(_translated_attribute, markup))
    text = data["text/plain"]
    if "onnxlab-slider" not in markup and (match := _TABLE.search(markup)):
        text = _table(match[1])
    elif match := _GRID.search(translated):
        text = _grid(text, match[1])
    else:
        text = "\n".join(_translated_line(line) for line in text.split("\n"))
    data |= {"text/html": translated, "text/plain": text}


def _translated_element(match: re.Match[str]) -> str:
    """Return an HTML element with its text translated."""
    start, tag, inner, end = match.groups()
    if tag == "pre" and "align-self" in start:
        return start + html.escape(_translated_small_graph(html.unescape(inner))) + end
    text = _plain(inner)
    if tag == "figcaption":
        numbered = _NUMBERED.fullmatch(text)
        name = tr(numbered[1] if numbered else text, GRAPH_NAMES)
        return f"{start}{html.escape(name)}{numbered[2] if numbered else ''}{end}"
    shown = "\n".join(map(_translated_line, text.split("\n"))) if tag in ("p", "pre") else tr(text)
    shown = html.escape(shown, quote=tag != "em")
    if "<code>" in inner:
        shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    return start + shown + end


def _translated_attribute(match: re.Match[str]) -> str:
    """Return an attribute with a graph's summary translated."""
    if graph := _ALT.fullmatch(html.unescape(match[2])):
        operators = _MORE.sub(lambda more: tr(more[0]), graph[2])
        shown = tr("Graph of {graph}: {operators}", graph=tr(graph[1], GRAPH_NAMES), operators=operators)
        return match[1] + html.escape(shown) + match[3]
    return match[1] + html.escape(_translated_line(html.unescape(match[2]))) + match[3]


def _translated_line(line: str) -> str:
    """Return a line of an output in plain text, translated."""
    line = _MORE.sub(lambda more: tr(more[0]), line)
    if match := _GRAPH.fullmatch(line):
        return f"Graph({' | '.join(map(_graph, match[1].split(' | ')))})"
    if _LEGEND.fullmatch(line):
        return joined(": ", [joined(", ", map(tr, line[:-1].split(", "))), ""]).rstrip(" ")
    if match := _HINT.fullmatch(line):
        choices = alternatives(map(tr, match[2].split(" or ")))
        hint = tr(f"Each cell: {choices}?")
        return tr(f"Predict: {hint}") if match[1] else hint
    if line.startswith("Answer: "):  # the option has a translation of its own
        return tr(f"Answer: {tr(line.removeprefix('Answer: '))}")
    if line.startswith("(last step: "):  # of a decoder
        return f"({tr(line[1:-1])})"
    if line.startswith("  - "):
        return f"  - {tr(line[4:])}"
    return tr(line)


def _graph(summary: str) -> str:
    name, _, count = summary.rpartition(", ")
    return joined(", ", [tr(name, GRAPH_NAMES), tr(count)], chinese="\uff0c")


def _translated_small_graph(text: str) -> str:
    """Return a small graph in plain text, with `input` and `output` translated."""
    rows = [re.split(r"(?<=\S)  +", line, maxsplit=1) for line in text.split("\n")]
    return "\n".join(
        aligned([[tr(row[0]) if row[0] in ("input", "output") else row[0], *row[1:]] for row in rows])
    )


def _table(inner: str) -> str:
    caption = re.search(r"<caption>(.*?)</caption>", inner, re.DOTALL)
    columns, *rows = ([_plain(cell) for cell in _CELL.findall(row)] for row in inner.split("<tr>")[1:])
    return repr(Table(tuple(columns), tuple(map(tuple, rows)), _plain(caption[1]) if caption else ""))


def _grid(text: str, inner: str) -> str:
    rows = [[_plain(cell) for cell in _CELL.findall(row)] for row in inner.split("<tr>")[1:]]
    first = text.split("\n")[0]
    head = [_translated_line(first)] if first.startswith("Predict: ") else []
    return "\n".join([*head, *aligned(rows)])


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"</?code>", "`", markup).replace("<br>", "\n"))


def _places(markup: str) -> Iterator[tuple[str, str]]:
    """Yield the options, headings and cells that an output shows, each with the context in which it is."""
    sets: list[tuple[list[str], list[str]]] = []  # texts, and those that they stand among
    if options := _OPTIONS.search(markup):
        texts = [_plain(item) for item in _ITEM.findall(options[1])]
        sets.append((texts, texts))
    if choices := _choices(markup):
        sets.append((choices, choices))
    if match := _TABLE.search(markup):
        headings, *rows = (
            [_plain(cell) for cell in _CELL.findall(row)] for row in match[1].split("<tr>")[1:]
        )
        sets += [(row, headings) for row in (headings, *rows)]
    for texts, among in sets:
        yield from ((text, context(among)) for text in texts)


def _choices(markup: str) -> list[str]:
    """Return what a cell of a grid of predictions can be; an answer may be none of them."""
    hint = re.search(r'<p class="hint">(.*?)</p>', markup)
    match = _HINT.fullmatch(_plain(hint[1])) if hint else None
    return match[2].split(" or ") if match else []


def shown_texts(notebook: dict[str, Any], recorded: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the headings and options that a notebook shows, each with the id of its cell and its context.

    A text that was composed has gaps. Only strings of a cell's code count: other texts were computed by
    PyTorch or ONNX and are the same in every language. The texts of `live_note` and the name of a slider's
    number are in no saved output, so they come from the code. A notebook may also show recorded texts.
    """
    literals, patterns = _strings(notebook)
    literals |= set(recorded)
    for cell in notebook["cells"]:
        yield from ((cell["id"], *note) for note in _notes(cell))
        for output in cell.get("outputs", ()):
            markup = output.get("data", {}).get("text/html", "")
            box = _BOX.search(markup)
            for tag, inner in _SHOWN.findall(box[1]) if box else ():
                text = _plain(inner)
                if tag == "caption" and text in literals:
                    continue  # translated in the code
                for line in text.split("\n"):
                    for source in _sources_of(line, literals, patterns):
                        alone = tag == "figcaption" and not GAP.search(source)
                        yield cell["id"], source, context(GRAPH_NAMES) if alone else ""
            yield from ((cell["id"], word, where) for word, where in _places(markup))
            for choice in _choices(markup):
                yield from ((cell["id"], source, "") for source in _sources_of(choice, literals, patterns))


def _is_prose(text: str) -> bool:
    """Tell whether a text is prose: not a name, a list of names, or code."""
    bare = re.sub(r"`[^`]*`", "", text)
    if not _CODE.search(bare):
        return bool(letters(bare)) and not _NAME.fullmatch(bare)
    parts = [part.split() for part in bare.split(", ")]
    return any(len(part) > 1 and any(re.fullmatch(r"[a-z]{2,}", word) for word in part) for part in parts)


def _notes(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what `live_note` says, the name of a slider's number, names of graphs: text and context."""
    if cell["cell_type"] != "code" or not re.search(r"\b(?:live_note|slider|graph)\(", cell["source"]):
        return
    for node in ast.walk(ast.parse(cell["source"])):
        called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.For) and "live_note(" in ast.unparse(node):
            constants = (part.value for part in ast.walk(node.iter) if isinstance(part, ast.Constant))
            yield from ((text, "") for text in constants if isinstance(text, str) and _is_prose(text))
        elif isinstance(node, ast.Call) and called == "live_note":
            yield from ((text, "") for text in templates(node.args[0]))
        elif isinstance(node, ast.Call) and called in ("slider", "graph"):
            names = [word.value for word in node.keywords if word.arg in ("name", "names")]
            for text in (text for name in names for text in templates(name) if _is_prose(text)):
                alone = called == "graph" and not GAP.search(text)
                yield text, context(GRAPH_NAMES) if alone else ""


def _strings(notebook: dict[str, Any]) -> tuple[set[str], list[tuple[re.Pattern[str], str]]]:
    literals, patterns = set(), {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        try:
            tree = ast.parse(cell["source"])
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                literals.add(node.value)
            elif isinstance(node, ast.JoinedStr) and (text := template(node)) and letters(text):
                patterns[text] = regular(text)
            elif isinstance(node, ast.keyword) and node.arg and isinstance(node.value, ast.Constant):
                literals.add(node.arg)  # dict(input="x"): a heading
    ranked = sorted(patterns.items(), key=lambda pair: -letters(pair[0]))
    return literals, [(pattern, text) for text, pattern in ranked]


def _sources_of(text: str, literals: set[str], patterns: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    if text in literals:
        if _is_prose(text):
            yield text
        return
    for pattern, source in patterns:
        if match := pattern.fullmatch(text):
            yield source
            for gap in match.groups():
                yield from _sources_of(gap, literals, patterns)
            return


def template(node: ast.expr) -> str | None:
    """Return a text of the source as a pattern; None if it is not one text.

    Braces of a text without gaps stay as they are, unless they look like a gap.

    >>> template(ast.parse('f"{len(names)} of {total} " + "names"', mode="eval").body)
    '{len_names} of {total} names'
    """
    counts: Counter[str] = Counter()

    def written(part: ast.expr) -> str | None:
        if isinstance(part, ast.Constant):
            return part.value.replace("{", "{{").replace("}", "}}") if isinstance(part.value, str) else None
        if isinstance(part, ast.FormattedValue):
            name = re.sub(r"\W+", "_", ast.unparse(part.value)).strip("_")[-24:].strip("_") or "value"
            name = f"n{name}" if name[0].isdigit() else name
            counts[name] += 1
            return "{" + name + (str(counts[name]) if counts[name] > 1 else "") + "}"
        if isinstance(part, ast.JoinedStr):
            return "".join(written(value) or "" for value in part.values)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            left, right = written(part.left), written(part.right)
            return None if left is None or right is None else left + right
        return None

    pattern = written(node)
    if pattern is None or GAP.search(pattern):
        return pattern
    return _escaped(pattern.replace("{{", "{").replace("}}", "}"))


def _escaped(text: str) -> str:
    """Return a text without gaps as a pattern: its braces are doubled if they look like a gap."""
    return text.replace("{", "{{").replace("}", "}}") if GAP.search(text) else text


def templates(node: ast.expr) -> Iterator[str]:
    """Yield the patterns of an expression: both arms of `a if b else c`, each element of a list."""
    pattern = template(node)
    if pattern is not None:
        yield pattern
    elif isinstance(node, ast.IfExp):
        yield from (*templates(node.body), *templates(node.orelse))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # a sentence, and a name for another
        yield from (*templates(node.left), *templates(node.right))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in templates(value))
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (text for element in node.elts for text in templates(element))
