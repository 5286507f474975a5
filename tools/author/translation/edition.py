"""The course in another language: its catalogues, and the files that are generated from them."""

import copy
import json
import os.path
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat
import polib

from onnxlab.course.lab_release import worked_in
from onnxlab.course.notebooks import Notebook, read, write
from onnxlab.files import write_atomically
from onnxlab.language import GRAPH_NAMES, LANGUAGES, Speech, context, is_pattern, letters, speaking
from onnxlab.message import GAP
from tools.author.translation.catalogue import Source, merged, notebook_sources, open_catalogue
from tools.author.translation.coverage import DOCUMENT, coverage_sources, translated_coverage
from tools.author.translation.lint import Glossary, faults, page_faults
from tools.author.translation.messages import messages
from tools.author.translation.outputs import ALONE, shown_texts, translate_output
from tools.author.translation.units import Kind, Unit, units

_PACKAGE = Path("src", "onnxlab")
_UNTRANSLATED = {"zh": " <sup>\u82f1\u6587</sup>"}
"""The mark behind a text that is shown in English until it is translated."""

_FEW = 2  # letters of a template that is never finished where it is shown

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)]*)?\))")


class Edition:
    """The course in one language, with its catalogues as they are after a merge with the present texts."""

    def __init__(self, root: Path, language: str) -> None:
        self._root, self._language = root, language
        self._folder = root / "translations" / language
        paths = [path for folder in ("notebooks", "labs") for path in sorted((root / folder).glob("*.ipynb"))]
        self._pages = {PurePosixPath(path.parent.name, path.name): read(path) for path in paths}
        self._messages = [Source(*message) for message in messages(root / _PACKAGE)]
        self.catalogues = {name: self._merged(name, texts) for name, texts in self._sources().items()}

    def update(self) -> list[Path]:
        """Write the catalogues and what is made from them; return the files that changed.

        A lab that somebody has worked in is left alone.
        """
        changed = []
        for name, catalogue in self.catalogues.items():
            path = self._folder / f"{name}.po"
            if self._write_if_changed(path, str(catalogue)):
                changed.append(path)
        notebooks = dict(self._notebooks())
        for path, text in self._assets(notebooks):
            if self._write_if_changed(path, text):
                changed.append(path)
        for path, notebook in notebooks.items():
            path.parent.mkdir(exist_ok=True)
            is_lab = path.parent.parent.name == "labs"
            if not (is_lab and path.exists() and worked_in(read(path))) and write(notebook, path):
                changed.append(path)
        return changed

    def prune(self) -> None:
        """Remove the translations of texts that are gone."""
        for catalogue in self.catalogues.values():
            for entry in catalogue.obsolete_entries():
                catalogue.remove(entry)

    def untranslated(self) -> Iterator[str]:
        """Yield a line for each text without a present translation: the English is shown until it has one."""
        for where, entry in self._entries():
            yield from (f"{where}: {state}: {_short(entry.msgid)}" for state in _states(entry))

    def words_in_context(self) -> list[str]:
        """Return a line for each word with a context: that, the English, the translation, and its places."""
        entries = sorted((e for _, e in self._entries() if e.msgctxt), key=lambda e: e.msgctxt)
        return [
            "\t".join([e.msgctxt, e.msgid, e.msgstr, " ".join(place for place, _ in e.occurrences)])
            for e in entries
        ]

    def faults(self) -> Iterator[str]:
        """Yield a line for each translation that is wrong, and for each generated file out of step."""
        glossary = Glossary(self._folder / "glossary.md")
        words = {name: _translations(self.catalogues[name]) for name in self.catalogues}
        for where, entry in self._entries():
            shown = words["shown"] | words[where.partition(".po")[0]]
            if not _states(entry):
                said = faults(entry, glossary, shown)
                yield from (f"{where}: {fault}: {_short(entry.msgid)}" for fault in said)
        for path, notebook in self._pages.items():
            if other_language(path, self._language) not in notebook["cells"][0]["source"]:
                yield f"{path}: no link {other_language(path, self._language)} below its title"
        for name, text in written_by_hand(self._root, self._language):
            yield from (f"{name}: {fault}" for fault in page_faults(text, glossary))
        yield from (f"{path.relative_to(self._root)}: not up to date" for path in self._stale())

    def _entries(self) -> Iterator[tuple[str, polib.POEntry]]:
        """Yield each entry with its place."""
        for name, catalogue in self.catalogues.items():
            for entry in catalogue:
                place = f" ({entry.occurrences[0][0]})" if entry.occurrences else ""
                yield f"{name}.po{place}", entry

    def _stale(self) -> Iterator[Path]:
        stored = {(entry.msgctxt, entry.msgid) for name in self.catalogues for entry in self._stored(name)}
        entries = (entry for catalogue in self.catalogues.values() for entry in catalogue)
        if any((entry.msgctxt, entry.msgid) not in stored for entry in entries):
            yield self._folder
        expected = dict(self._notebooks())
        for path, text in self._assets(expected):
            if not path.exists() or path.read_text("utf-8") != text:
                yield path
        for path, notebook in expected.items():
            if not path.exists() or read(path) != notebook:
                yield path
        for folder in ("notebooks", "labs"):
            existing = sorted((self._root / folder / self._language).glob("*.ipynb"))
            yield from (path for path in existing if path not in expected)

    def _sources(self) -> dict[str, list[Source]]:
        sources = {path.stem: list(notebook_sources(page)) for path, page in self._pages.items()}
        recorded = self._root / _PACKAGE / "assets" / "recorded" / "back_ends.json"
        models = json.loads(recorded.read_text("utf-8"))["models"].values()
        facts = [model["shows"] for model in models]
        # Where a word means something else than elsewhere, a translator adds an entry with its context.
        own = {(entry.msgctxt, entry.msgid) for entry in self._stored("shown")}
        self._shown = [
            Source(text, "shown", f"{path.stem}#{cell}", where)
            for path, page in self._pages.items()
            if path.parts[0] == "notebooks"
            for cell, text, where in shown_texts(page, facts)
            if where in ("", context(GRAPH_NAMES)) or text in ALONE or (where, text) in own
        ]
        sources["shown"] = self._shown
        shown = {source.text for source in self._shown if not source.context}  # one text, one translation
        sources["messages"] = [
            source for source in self._messages if source.context or source.text not in shown
        ]
        if (self._root / DOCUMENT).exists():
            sources[DOCUMENT.stem] = list(coverage_sources((self._root / DOCUMENT).read_text("utf-8")))
        return sources

    def _stored(self, name: str) -> polib.POFile:
        return open_catalogue(self._folder / f"{name}.po")

    def _merged(self, name: str, texts: list[Source]) -> polib.POFile:
        return merged(self._stored(name), texts, self._language)

    def _notebooks(self) -> Iterator[tuple[Path, Notebook]]:
        package = self._words()
        every = package["texts"] | package["patterns"]
        # Saved outputs are finished. "{name} at {sizes}" of a message would match any "1 at [0]".
        templates = {
            text: every[text]
            for text in every
            if is_pattern(text) and (text in package["patterns"] or letters(text) > _FEW)
        }

        def exists(path: str) -> bool:
            target = PurePosixPath(path)
            return target.parent.parent / target.name in self._pages or (self._root / path).is_file()

        for path, page in self._pages.items():
            words = _translations(self.catalogues[path.stem])
            # Outputs repeat texts of the cell's code, and get their translations.
            with speaking(Speech(every | words, templates, contexts=package["contexts"])):
                notebook = generated(page, path, words, self._language, exists)
            yield self._root / path.parent / self._language / path.name, nbformat.from_dict(notebook)

    def _assets(self, notebooks: Mapping[Path, Notebook]) -> Iterator[tuple[Path, str]]:
        """Yield the package's files: its texts, and the cells of the labs for `onnxlab reset`."""
        labs: dict[str, dict[str, str]] = {}
        for path, notebook in notebooks.items():
            english = self._pages.get(PurePosixPath("labs", path.name), {"cells": []})
            pairs = zip(notebook["cells"], english["cells"], strict=False)
            cells = {cell["id"]: cell["source"] for cell, en in pairs if cell["source"] != en["source"]}
            if cells:
                labs[path.stem] = cells
        folder = self._root / _PACKAGE / "assets" / "languages"
        yield folder / f"{self._language}.json", _json(self._words())
        yield folder / f"{self._language}_labs.json", _json(labs)
        if (self._root / DOCUMENT).exists():
            document = (self._root / DOCUMENT).read_text("utf-8")
            texts = {name: _translations(catalogue) for name, catalogue in self.catalogues.items()}
            chapters = {name.partition("_")[0]: texts[name] for name in texts}
            mark = _UNTRANSLATED[self._language]
            translated = translated_coverage(document, texts[DOCUMENT.stem], chapters, self._language, mark)
            yield self._root / DOCUMENT.with_suffix(f".{self._language}.md"), translated

    def _words(self) -> dict[str, dict[str, Any]]:
        """Return the texts that `onnxlab.language` reads."""
        translations = _translations(self.catalogues["messages"]) | _translations(self.catalogues["shown"])
        recorded = ("elsewhere", "measurements/atlas/")  # the atlas holds its texts finished, too
        others = [source for source in self._messages if source.place.startswith(recorded)]
        finished = {source.text for source in [*others, *self._shown] if source.has_gaps}
        scripts = {source.text for source in self._messages if source.place.endswith(".js")}
        return {
            "texts": {text: translations[text] for text in translations if text not in finished},
            "patterns": {text: translations[text] for text in translations if text in finished},
            "scripts": {text: translations[text] for text in translations if text in scripts},
            "contexts": self._contexts(),
        }

    def _contexts(self) -> dict[str, dict[str, str]]:
        """Return the translations of words that stand alone, by what they stand among."""
        contexts: dict[str, dict[str, str]] = {}
        for name in ("messages", "shown"):
            for entry in self.catalogues[name].translated_entries():
                if entry.msgctxt:
                    contexts.setdefault(entry.msgctxt, {})[entry.msgid] = entry.msgstr
        return contexts

    def _write_if_changed(self, path: Path, text: str) -> bool:
        if path.exists() and path.read_text("utf-8") == text:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, mode=0o644)
        return True


def written_by_hand(root: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield the pages and texts that somebody wrote in the language, each with its file's name."""
    folders = (".", "docs", "labs", "site", "packages/*/docs")
    for path in sorted(path for at in folders for path in root.glob(f"{at}/*.{language}.md")):
        if path.name != f"{DOCUMENT.stem}.{language}.md":  # which is generated
            yield path.relative_to(root).as_posix(), path.read_text("utf-8")
    for path in sorted((root / "site").glob("*.toml")):
        lines = re.findall(rf'^{language}\w* = "(.*)"$', path.read_text("utf-8"), re.MULTILINE)
        yield f"site/{path.name}", "\n".join(lines)
    words = root / "site" / "words.json"
    if words.exists():
        texts = json.loads(words.read_text("utf-8"))[language]
        texts["page"].pop("synonyms")  # what people type
        yield "site/words.json", "\n".join(_strings_of(texts))


def _translations(catalogue: polib.POFile) -> dict[str, str]:
    """Return the translations that can be used: neither fuzzy nor with a gap that the English text lacks."""
    return {
        entry.msgid: entry.msgstr
        for entry in catalogue.translated_entries()
        if not entry.msgctxt and set(GAP.findall(entry.msgstr)) <= set(GAP.findall(entry.msgid))
    }


def _strings_of(value: object) -> Iterator[str]:
    """Yield the texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings_of(part)


def _json(words: object) -> str:
    return json.dumps(words, ensure_ascii=False, indent=0, sort_keys=True) + "\n"


def _states(entry: polib.POEntry) -> list[str]:
    if entry.obsolete:
        return ["obsolete"]
    if not entry.msgstr:
        return ["missing"]
    return ["fuzzy"] if entry.fuzzy else []


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:70]


def other_language(path: PurePosixPath, language: str) -> str:
    """Return the line of an English page that leads to the same page in another language.

    It is the same in a lab and in the solution that the lab is made from.

    >>> other_language(PurePosixPath("labs/lab05_bitshift.ipynb"), "zh")
    '[Chinese \u00b7 \u4e2d\u6587](../labs/zh/lab05_bitshift.ipynb)'
    """
    return f"[{LANGUAGES[language]}](../{path.parent}/{language}/{path.name})"


def generated(
    notebook: Notebook,
    path: PurePosixPath,
    words: Mapping[str, str],
    language: str,
    exists: Callable[[str], bool],
) -> Notebook:
    """Return a notebook in another language; texts without a translation stay English.

    `onnxlab.language` must be set to the language: it translates the outputs.
    """
    result = copy.deepcopy(notebook)
    spoken, asked = False, dict[str, str]()
    for cell in result["cells"]:
        cell_units = units(cell)
        edits = [
            (unit, _as_source(unit, words[unit.text]))
            if unit.text in words
            else (unit, unit.text + _UNTRANSLATED[language])
            for unit in cell_units
            if unit.text in words or _is_marked(unit, cell["source"])
        ]
        for unit, text in reversed(edits):
            cell["source"] = cell["source"][: unit.start] + text + cell["source"][unit.end :]
        if cell["cell_type"] == "markdown":
            english_link = f"[{LANGUAGES['en']}](../{path.name})"
            cell["source"] = cell["source"].replace(other_language(path, language), english_link)
            cell["source"] = _LINK.sub(lambda link: _moved(link, path, language, exists), cell["source"])
        elif cell["cell_type"] == "code":
            for output in cell["outputs"]:
                translate_output(output, cell["source"], asked)
            if not spoken:
                spoken = True
                cell["source"] = f'import onnxlab\n\nonnxlab.speak("{language}")\n\n{cell["source"]}'
    return result


def _is_marked(unit: Unit, source: str) -> bool:
    """Tell whether a text gets a mark while it has no translation: a heading would have it in its anchor."""
    return unit.kind is Kind.TEXT and not source[: unit.start].rpartition("\n")[2].startswith("#")


def _as_source(unit: Unit, text: str) -> str:
    """Return a translation in the form in which the source has it."""
    match unit.kind:
        case Kind.QUESTION | Kind.CAPTION:
            return json.dumps(text, ensure_ascii=False)
        case Kind.DOCSTRING:
            lines = text.split("\n")
            end = f"\n{unit.indent}" if len(lines) > 1 else ""
            return '"""' + f"\n{unit.indent}".join(lines) + end + '"""'
        case Kind.COMMENT:
            return f"# {text}"
        case Kind.DRAWING:
            return f"{text}\n"
    return text


def _moved(link: re.Match[str], path: PurePosixPath, language: str, exists: Callable[[str], bool]) -> str:
    """Return a link for a file one folder deeper, to the translated page if there is one."""
    target = link[2]
    if re.match(r"\w+:|/", target) or target == f"../{path.name}":
        return link[0]
    full = posixpath.normpath(posixpath.join(str(path.parent), target))
    folder, name = os.path.split(full)
    for translated in (f"{folder}/{language}/{name}", re.sub(r"\.md$", f".{language}.md", full)):
        if translated != full and exists(translated):
            full = translated
            break
    return link[1] + posixpath.relpath(full, str(path.parent / language)) + link[3]
