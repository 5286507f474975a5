"""The page that opens a reader's own file: its scripts, and the data that they need."""

import ast
import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from error_page import section_place
from pages import Site

from onnxlab.notebook.graph import netron_files

OPEN = "open"
"""The page's name."""

_SCRIPTS = ("structure", "findings", "pairs", "open")
_WORKER = ("values", "run_worker")
_LITERAL = re.compile(r"""(["'])((?:(?!\1).)+)\1""")


def open_page(site: Site) -> str:
    """Return the page's source."""
    return (
        "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
        f"# {site.words['open']}\n\n{site.words['open_text']}\n\n"
        f'<div class="onnxlab-open"><p>{site.words["open_script"]}</p></div>\n'
        f'<script defer src="_static/{OPEN}.js"></script>\n'
    )


def write_scripts(site: Site, folder: Path) -> dict[str, str]:
    """Write the page's scripts; return their texts that the package has translations of.

    Netron's decoder of ONNX files runs in the page itself, the rest of Netron in the frame of a graph only.
    """
    sources = site.root / "site" / "page" / "open"
    scripts, worker = (
        [(sources / f"{name}.js").read_text("utf-8") for name in names] for names in (_SCRIPTS, _WORKER)
    )
    modules = [netron_files.module_script(name) for name in ("text", "protobuf", "onnx-proto")]
    parts = ["(() => {", netron_files.own_file("netron_modules.js"), *modules, *scripts, "})();\n"]
    (folder / f"{OPEN}.js").write_text("\n".join(parts), "utf-8")
    (folder / f"{OPEN}_run.js").write_text("".join(worker), "utf-8")
    texts = {match[2] for script in (*scripts, *worker) for match in _LITERAL.finditer(script)}
    texts |= {text for rule in _rules(site.root).values() for text in (rule["why"], rule["then"])}
    return {text: known for text in texts if (known := site.translate(text)) != text}


def open_data(site: Site) -> dict[str, Any]:
    """Return what the page needs to know: operators, runtimes, rules, and the sections that explain them."""
    lessons = {}
    for name, (chapter, section) in _assigned(site.root, "symptom.py", "LESSONS").items():
        title, page, anchor = section_place(site, chapter, section)
        lessons[name] = [re.sub("[`*]", "", title), f"{page}.html{anchor}"]
    recorded = site.root / "src" / "onnxlab" / "assets" / "recorded" / "runtimes.json"
    runtimes = json.loads(recorded.read_text("utf-8"))
    table = gzip.compress(netron_files.operator_names().encode(), 9, mtime=0)
    return {
        "operators": base64.b64encode(table).decode(),
        "runtimes": {name: [fact["newest_ir"], fact["newest_opset"]] for name, fact in runtimes.items()},
        "rules": _rules(site.root),
        "lessons": lessons,
    }


def _rules(root: Path) -> dict[str, dict[str, str]]:
    """Return the words of the doctor's rules about structure, by the names of their functions.

    The module is read, not imported: the environment of the build has no onnx.
    """
    names = ("severity", "lesson", "why", "then")
    return {
        node.name: dict(zip(names, map(ast.literal_eval, call.args), strict=True))
        for node in _module(root, "structure.py").body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call)
    }


def _assigned(root: Path, module: str, name: str) -> Any:  # noqa: ANN401 - any literal
    values = (node for node in _module(root, module).body if isinstance(node, ast.Assign))
    return next(ast.literal_eval(node.value) for node in values if ast.unparse(node.targets[0]) == name)


def _module(root: Path, name: str) -> ast.Module:
    return ast.parse((root / "src" / "onnxlab" / "diagnosis" / name).read_text("utf-8"))
