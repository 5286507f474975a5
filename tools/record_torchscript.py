"""Record what the TorchScript exporter writes in the chapters: src/onnxlab/assets/recorded/torchscript/.

    python -m tools.record_torchscript            record every chapter that calls it
    python -m tools.record_torchscript 02 08      record these
    python -m tools.record_torchscript --check    run them without the exporter, from what was recorded

A chapter is run with nbval, so that a recording is only kept where the chapter shows what it was saved with.
Each call goes to the exporter with its warnings and prints caught, is written down, and is then answered from
what was written down: what the run compares has been through the recording already.

A file is stored without the weights that are the model's own: `torchscript_recording` fills in those of the
model at hand. What says where the source of the model stood is shortened to the name of the file.
"""

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import nbformat
import onnx
import torch

from onnxlab.exporters import torchscript_calls as calls
from onnxlab.exporters.export import failure
from onnxlab.exporters.silence import silenced
from onnxlab.exporters.torchscript_recording import (
    FOLDER,
    VARIABLE,
    answer,
    examples,
    fingerprint,
    weight_bytes,
)

__all__ = ["Recorder", "chapters", "pack", "recorded_file", "run_chapter"]

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT.joinpath("src", "onnxlab", *FOLDER)

_SMALLEST = 32  # bytes of a tensor that is worth a file of its own
_STARTUP = """
import sys
sys.path.append({root!r})
from pathlib import Path
from tools.record_torchscript import Recorder
Recorder(Path({folder!r})).start()
"""


class Recorder:
    """Stands in for `torch.onnx.export` in a chapter's kernel while it is recorded.

    Args:
        folder: Where it writes: calls.jsonl, a line for each call, and the graphs and tensors.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._export: Callable[..., Any] = torch.onnx.export

    def start(self) -> None:
        """Record from now on."""

        def export(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as torch's function
            if options.get("dynamo", True) is not False:
                return self._export(*args, **options)
            return self._record(sys._getframe(1), args, options)

        export.__wrapped__ = self._export  # type: ignore[attr-defined]  # for inspect.signature
        torch.onnx.export = export
        self._move_sliders()

    def _move_sliders(self) -> None:
        """Show everything that a slider can: the reader of the recording may move it."""
        from onnxlab.notebook import slider

        original = slider.slider

        def moved(show: Callable[[float], object], start: Any, least: Any, most: Any, **options: Any) -> None:  # noqa: ANN401 - numbers
            original(show, start, least, most, **options)
            if isinstance(start, int) and most - least < 20:
                with torch.random.fork_rng(), contextlib.suppress(Exception):
                    for number in range(least, most + 1):
                        show(number)

        slider.slider = moved

    def _record(self, frame: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:  # noqa: ANN401 - a frame
        model, example, f, other_options = calls.arguments(args, options)
        source = calls.calling_cell(frame)
        facts = calls.facts(model, example, other_options)  # before: a failing export may change the model
        key = calls.digest(json.dumps(facts, ensure_ascii=False))
        rules = calls.registered_rules()
        call = self._live(model, example, f, args, options)
        if added := sorted(calls.registered_rules().keys() - rules.keys()):
            call["registers"] = added
        entry = {"cell": calls.cell_digest(source), "facts": key, "call": call}
        entry |= {"models": sorted(calls.reached_cells(model))}
        with (self.folder / "calls.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
        recorded = dict(call)
        for effect in ("ran", "registers"):
            recorded.pop(effect, None)
        answer(recorded, model, example, f, other_options, lambda name: (self.folder / name).read_bytes())

    def _live(
        self, model: object, example: object, f: object, args: tuple[Any, ...], options: dict[str, Any]
    ) -> dict[str, Any]:
        call: dict[str, Any] = {}
        ran: list[object] = []
        hook = torch.nn.modules.module.register_module_forward_pre_hook(
            lambda module, _: ran.append(module) if module is model else None
        )
        with tempfile.TemporaryDirectory() as place:
            to_path = isinstance(f, str | os.PathLike)
            own: Any = (
                Path(place, "model.onnx") if to_path else io.BytesIO() if isinstance(f, io.BytesIO) else f
            )
            args = (*args[:2], own) if len(args) > 2 else args
            options = options | {"f": own} if "f" in options else options
            error = None
            with silenced() as heard, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    self._export(*args, **options)
                except Exception as raised:
                    error = raised
            hook.remove()
            data = b""
            if to_path and own.exists():
                data = own.read_bytes()
            elif isinstance(own, io.BytesIO):
                data = own.getvalue()
        if ran:
            call["ran"] = len(ran)
        if caught:
            call["warnings"] = [_warning(warning) for warning in caught]
        if heard.text:
            call["printed_by_c"] = _without_folders(heard.text)
        if data:
            call["file"], computed = recorded_file(data, model, self._keep)
            if computed:
                call["values"] = fingerprint(calls.state(model))
        if any("TracerWarning" in warning["category"] for warning in call.get("warnings", ())):
            call["examples"] = fingerprint(examples((example, options.get("kwargs"))))
        if error is not None:
            problem = failure(error)
            call["error"], call["stage"] = _links(error), problem.stage.value
        return call

    def _keep(self, content: bytes, kind: str) -> str:
        name = f"{calls.digest(content)}.{kind}"
        (self.folder / name).write_bytes(content)
        return name


def recorded_file(
    data: bytes, model: object, keep: Callable[[bytes, str], str]
) -> tuple[dict[str, Any], bool]:
    """Take a file apart into its graph and its weights.

    Args:
        data: The file.
        model: What it was made of.
        keep: Stores a content of a kind, "onnx" or "bin", and returns its name.

    Returns:
        What `torchscript_recording` puts together again, and whether there are weights in the file that
        are not the model's own: the exporter may have computed them from those.
    """
    proto = onnx.load_model_from_string(data)
    own: dict[bytes, tuple[str, str]] = {}
    state = calls.state(model)
    twice: set[bytes] = set()
    for name, tensor in state.items():
        for where in ("state", "transposed")[: 2 if tensor.dim() == 2 else 1]:
            content = weight_bytes(tensor, transposed=where == "transposed")
            if content in own:
                twice.add(content)
            own.setdefault(content, (where, name))
    weights: dict[str, tuple[str, str]] = {}
    computed = False
    for initializer in proto.graph.initializer:
        content, name = initializer.raw_data, initializer.name
        if name in state and weight_bytes(state[name]) == content:
            weights[name] = ("state", name)
        elif content in own and content not in twice and len(content) >= _SMALLEST:
            weights[name] = own[content]
        else:
            computed = computed or initializer.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
            if len(content) < _SMALLEST:
                continue
            weights[name] = ("stored", keep(content, "bin"))
        initializer.ClearField("raw_data")
    for node in proto.graph.node:
        if node.doc_string:
            node.doc_string = _without_folders(node.doc_string)
    return {"graph": keep(proto.SerializeToString(deterministic=True), "onnx"), "weights": weights}, computed


def _warning(caught: warnings.WarningMessage) -> dict[str, Any]:
    kind, path = caught.category, Path(caught.filename)
    below = path.parts[path.parts.index("site-packages") + 1 :] if "site-packages" in path.parts else ()
    module = ".".join(below).removesuffix(".py").removesuffix(".__init__") or "__main__"
    line = caught.lineno if below else 1
    text = _without_folders(str(caught.message))
    return {
        "category": f"{kind.__module__}.{kind.__qualname__}",
        "text": text,
        "module": module,
        "line": line,
    }


def _links(error: BaseException | None) -> list[dict[str, str]]:
    links: list[dict[str, str]] = []
    while error is not None and len(links) < 10:
        kind = type(error)
        links.append(
            {"class": f"{kind.__module__}.{kind.__qualname__}", "text": _without_folders(str(error))}
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return links


_FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")


def _without_folders(text: str) -> str:
    """Shorten paths to what stands below site-packages, or to the file's name; addresses become zero."""
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x0", re.sub(r"/[\w./+-]*/site-packages/", "", text))
    return re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "cell.py", _FOLDERS.sub(_folder_shown, text))


def _folder_shown(match: re.Match[str]) -> str:
    machine = (tempfile.gettempdir(), str(Path.home()), str(ROOT), sys.prefix, sys.base_prefix)
    if re.match(r"/tmp/ipykernel_\d+/$", match[0]):
        return match[0]
    return "" if match[0].startswith(machine) else match[0]


def chapters() -> list[Path]:
    """Return the chapters, in order."""
    return sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def run_chapter(path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a chapter with nbval, comparing what it shows with what it was saved with."""
    options = ["--nbval", "--nbval-current-env", "-q", "-p", "no:cacheprovider", "--color=no"]
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def pack(folder: Path, sources: Iterable[str]) -> bytes | None:
    """Return the zip of what was recorded in a folder; None if there was no call.

    Args:
        folder: Where a `Recorder` wrote.
        sources: The code cells of the chapter.
    """
    file = folder / "calls.jsonl"
    if not file.exists():
        return None
    cells: dict[str, dict[str, list[Any]]] = {}
    models: set[str] = set()
    for entry in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        cells.setdefault(entry["cell"], {}).setdefault(entry["facts"], []).append(entry["call"])
        models |= set(entry["models"])
    for recorded in cells.values():
        for facts, repeated in recorded.items():
            # The last one answers all further calls.
            while len(repeated) > 1 and repeated[-1] == repeated[-2]:
                repeated.pop()
            recorded[facts] = repeated
    silent = [
        cell
        for source in sources
        if "dynamo=False" in source and (cell := calls.cell_digest(source)) not in cells
    ]
    listing = {
        "torch": torch.__version__.partition("+")[0],
        "cells": cells,
        "models": sorted(models),
        "silent": silent,
    }
    contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path != file}
    contents["calls.json"] = json.dumps(listing, ensure_ascii=False, separators=(",", ":")).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in contents.items():
            archive.writestr(
                zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED
            )  # without the time: same bytes
    return packed.getvalue()


def record(path: Path) -> tuple[str, bool]:
    """Record a chapter; return a line about it, and whether it worked."""
    target = RECORDED / f"{path.stem}.zip"
    with tempfile.TemporaryDirectory() as place:
        folder, startup = Path(place, "recorded"), Path(place, "profile_default", "startup")
        folder.mkdir()
        startup.mkdir(parents=True)
        code = _STARTUP.format(root=str(ROOT), folder=str(folder))
        (startup / "00_record.py").write_text(code, encoding="utf-8")
        done = run_chapter(path, {"IPYTHONDIR": place, VARIABLE: ""})
        if done.returncode:
            return f"not recorded, the chapter is red:\n{done.stdout[-4000:]}{done.stderr[-1000:]}", False
        cells = nbformat.read(path, as_version=4).cells
        packed = pack(folder, [cell.source for cell in cells if cell.cell_type == "code"])
    if packed is None:
        target.unlink(missing_ok=True)
        return "no call", True
    target.write_bytes(packed)
    return f"{len(packed) / 1000:.0f} kB", True


def check(path: Path) -> tuple[str, bool]:
    """Run a chapter from the recording; return a line about it, and whether it is green."""
    done = run_chapter(path, {VARIABLE: "recorded"})
    return (
        ("green", True)
        if not done.returncode
        else (f"red:\n{done.stdout[-6000:]}{done.stderr[-1000:]}", False)
    )


def main() -> None:
    """Record or check, and print a line for each chapter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chapters", nargs="*", help="the beginnings of their names, such as 02")
    parser.add_argument("--check", action="store_true", help="run them from the recording")
    arguments = parser.parse_args()
    worked = True
    for path in chapters():
        if arguments.chapters and not path.name.startswith(tuple(arguments.chapters)):
            continue
        started = time.perf_counter()
        outcome, ok = check(path) if arguments.check else record(path)
        worked = worked and ok
        print(f"{path.stem:28} {time.perf_counter() - started:5.0f} s  {outcome}", flush=True)
    sys.exit(not worked)


if __name__ == "__main__":
    main()
