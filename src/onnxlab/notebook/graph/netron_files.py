"""Netron's own files, read from the installed package: nothing of Netron is copied into ONNX Lab.

The live graph gets them as one compressed bundle over the notebook's channel, the static picture runs the
same files in QuickJS. `PAGE_MODULES` and `PICTURE_MODULES` say which files each of them needs. The web site
is built with this module in an environment without onnx and QuickJS: it imports neither.
"""

import functools
import gzip
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import netron

from onnxlab.errors import OnnxLabError

# The modules with which Netron's page opens an ONNX file; its readers of other formats are left out.
PAGE_MODULES = (
    *("base", "view", "grapher", "browser", "text", "protobuf", "zip", "flatbuffers"),
    *("onnx", "onnx-proto", "dagre"),
)
# What ONNX Lab adds inside the frame, in one script.
_FRAME_SCRIPTS = (
    "netron_modules.js",
    "marks.js",
    "ruler.js",
    "layout.js",
    "viewport.js",
    "search.js",
    "frame.js",
)
# The modules that read and lay out an ONNX graph, in the order in which they import one another.
PICTURE_MODULES = ("text", "base", "protobuf", "dagre", "grapher", "view", "onnx-proto", "onnx")


@dataclass(frozen=True)
class Bundle:
    """Netron's page as one gzip-compressed JSON document, and a key that changes with its content."""

    key: str
    data: bytes


def read_file(name: str) -> str:
    """One of Netron's own files.

    Raises:
        OnnxLabError: It is not there.
    """
    path = Path(netron.__file__).parent / name
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise OnnxLabError(
            "Netron's file {name} cannot be read: {error.strerror}.",
            then="Reinstall the netron package in the version of requirements.txt.",
            name=name,
            error=error,
        ) from error


def own_file(name: str) -> str:
    """One of the files that ONNX Lab adds."""
    return (resources.files("onnxlab.notebook.graph") / "page" / name).read_text("utf-8")


@functools.cache
def bundle() -> Bundle:
    """The files of Netron's page, and what ONNX Lab adds to them, for the frame."""
    page = read_file("index.html")
    body = re.search(r"<body[^>]*>(.*)</body>", page, re.DOTALL)
    content = {
        "netron": "\n".join(map(module_script, PAGE_MODULES)),
        "dagre": read_file("dagre.js"),
        "css": read_file("grapher.css")
        + "\n".join(re.findall(r"<style[^>]*>(.*?)</style>", page, re.DOTALL))
        + own_file("frame.css"),
        # A javascript: link is what the frame's content security policy exists to refuse.
        "body": (body[1] if body else "").replace(' href="javascript:void(0)"', ""),
        "frame": "".join(own_file(name) for name in _FRAME_SCRIPTS),
        "version": netron.__version__,
    }
    data = gzip.compress(json.dumps(content).encode(), 9, mtime=0)
    return Bundle(hashlib.sha256(data).hexdigest()[:16], data)


def module_script(name: str) -> str:
    """One of Netron's modules as a plain function (see netron_modules.js)."""
    code = read_file(f"{name}.js")
    code = re.sub(r"import \* as (\w+) from '\./([\w-]+)\.js';", r"const \1 = requireModule('\2');", code)
    code = re.sub(r"\bawait import\('(?:\./)?([\w-]+)(?:\.js)?'\)", r"requireModule('\1')", code)
    code = re.sub(
        r"^export const \{([^}]*)\} = (\w+);",
        lambda m: "".join(f"exported.{k.strip()} = {m[2]}.{k.strip()};" for k in m[1].split(",")),
        code,
        flags=re.MULTILINE,
    )
    code = re.sub(r"^export const (\w+) = ", r"const \1 = exported.\1 = ", code, flags=re.MULTILINE)
    # Netron says of a weight that could not be read that it is empty, which is false: the error says why.
    if name == "onnx":
        code = re.sub(r"\.catch\(\(\) => \{\s+return null;\s+\}\)", "", code)
    # Netron writes shapes in CJK angle brackets, which are empty boxes where no CJK font is installed.
    code = code.replace(r"\u3008", "<").replace(r"\u3009", ">")
    return f"defineModule({json.dumps(name)}, (exported) => {{'use strict';{code}\n}});"


@functools.cache
def stylesheet() -> str:
    """Netron's light style of a graph, without what a still picture cannot use."""
    css = read_file("grapher.css").partition("@keyframes")[0]
    return "\n".join(
        line for line in css.splitlines() if line and ":hover" not in line and ".select" not in line
    )


@functools.cache
def _operators() -> tuple[str, dict[tuple[str, str], list[tuple[int, int]]]]:
    """Netron's operator table as text, and where each operator's versions stand in it."""
    text = read_file("onnx-metadata.json")
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    decoder, start = json.JSONDecoder(), text.index("[") + 1
    while (start := text.find("{", start)) >= 0:
        entry, end = decoder.raw_decode(text, start)
        spans.setdefault((entry.get("module", "ai.onnx"), entry["name"]), []).append((start, end))
        start = end
    return text, spans


def operator_table(used: Iterable[tuple[str, str]]) -> str:
    """Netron's operator table cut down to the operators a model uses, in all their versions.

    Args:
        used: Pairs of domain ("" is "ai.onnx") and operator.
    """
    text, spans = _operators()
    keys = sorted({(domain or "ai.onnx", name) for domain, name in used})
    return "[" + ",".join(text[a:b] for key in keys for a, b in spans.get(key, ())) + "]"


def operator_names() -> str:
    """Netron's whole operator table without its texts, which are nine tenths of it."""
    text, _ = _operators()
    return json.dumps(_without_texts(json.loads(text)), separators=(",", ":"))


def _without_texts(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return [_without_texts(part) for part in value]
    texts = ("description", "examples", "type_constraints")
    if isinstance(value, dict):
        return {key: _without_texts(part) for key, part in value.items() if key not in texts}
    return value
