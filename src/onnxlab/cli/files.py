"""An engineer's commands, `onnxlab doctor`, `why`, `compare`, `open`: arguments and printing only."""

import argparse
import json
import math
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from onnxlab.cli.terminal import control, write_coloured, write_link
from onnxlab.errors import OnnxLabError
from onnxlab.language import joined, spoken_language, tr
from onnxlab.plain_text import aligned, plain

if TYPE_CHECKING:
    from onnxlab.diagnosis.pair import Pair

_ROWS = 12  # of the table of outputs, with its heading


class NoMessage(OnnxLabError):
    """There is no message to explain."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to a parser."""
    doctor = commands.add_parser(
        "doctor",
        help="what is wrong or risky in a model file, and what to do",
        epilog="Example: onnxlab doctor model.onnx --against net.py:make",
    )
    doctor.add_argument("model", type=Path, metavar="MODEL.onnx")
    doctor.add_argument(
        "--against",
        default="",
        metavar="FILE.py:FACTORY",
        help="compare with PyTorch: factory() returns (module, inputs); also as package.module:factory",
    )
    doctor.add_argument(
        "--seconds", type=float, default=60, help="how long loading and running may take (60)"
    )
    doctor.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE.npz",
        help="run it with these: an array for each input; or a folder of .npy files, or of batches",
    )
    _add_format(doctor)
    doctor.add_argument(
        "--fail-on",
        choices=("wrong", "risk"),
        default="risk",
        help="exit with 1 for what is wrong only, or for a risk as well (risk)",
    )
    doctor.set_defaults(command=_doctor)
    why = commands.add_parser(
        "why",
        help="what an error message means, and what helps",
        epilog='Example: python run.py 2>&1 | onnxlab why; or: onnxlab why "the message"',
    )
    why.add_argument(
        "text", nargs="*", metavar="MESSAGE", help="the message or traceback; else it is read from a pipe"
    )
    why.set_defaults(command=_why)
    compare = commands.add_parser(
        "compare",
        help="two models: their graphs, and their outputs where both run",
        epilog="Example: onnxlab compare model.onnx model_fp16.onnx --rtol 0.01",
    )
    compare.add_argument("models", nargs=2, type=Path, metavar="MODEL.onnx")
    compare.add_argument(
        "--inputs", type=Path, metavar="FILE.npz", help="values by input name; or a folder of .npy files"
    )
    compare.add_argument(
        "--rtol",
        type=_tolerance,
        help="which difference is allowed, relative to an output's largest value"
        " (float32 0.00001, float16 0.01, bfloat16 0.04, int8 0.1: the narrowest type in the files)",
    )
    compare.add_argument(
        "--atol", type=_tolerance, help="or as it stands (float32 0.00001, float16 and int8 0.001)"
    )
    compare.add_argument(
        "--provider", default="CPUExecutionProvider", help="what runs them (CPUExecutionProvider)"
    )
    compare.add_argument(
        "--seconds", type=_seconds, default=60, help="how long loading and running may take (60)"
    )
    compare.add_argument(
        "--fail-on",
        choices=("outputs", "sizes"),
        default="sizes",
        help="what gives exit code 1: outputs that differ, or sizes, too, that only one file accepts (sizes)",
    )
    compare.add_argument(
        "--html", type=Path, metavar="FILE.html", help="write both graphs and what differs as a page"
    )
    _add_format(compare)
    compare.set_defaults(command=_compare)
    show = commands.add_parser(
        "open",
        help="a model's graph as a page in the browser",
        epilog="Example: onnxlab open before.onnx after.onnx",
    )
    show.add_argument("model", type=Path, metavar="MODEL.onnx")
    show.add_argument(
        "other", type=Path, nargs="?", metavar="OTHER.onnx", help="show what differs in this one"
    )
    show.add_argument("--no-browser", action="store_true", help="only print the address")
    show.set_defaults(command=_open)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=("text", "json", "github"),
        default="text",
        help="json: for programs; github: annotations of a pull request (text)",
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="as --format json")


def _tolerance(text: str) -> float:
    """Read a tolerance."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number < math.inf:  # false for nan
        return number
    raise argparse.ArgumentTypeError(f"a number from 0 on is needed, not {text[:40]!r}")


def _seconds(text: str) -> float:
    """Read a time limit."""
    seconds = _tolerance(text)
    if 0 < seconds <= threading.TIMEOUT_MAX:
        return seconds
    raise argparse.ArgumentTypeError(f"some seconds are needed, not {text[:40]!r}")


def _doctor(options: argparse.Namespace) -> int:
    from onnxlab.diagnosis.examination import examine

    live = sys.stderr.isatty() and options.format == "text"

    def say(what: str) -> None:
        if live:
            control("\r\x1b[K", sys.stderr)
            print(f"{tr(what)} ...", end="", file=sys.stderr, flush=True)

    try:
        found = examine(
            options.model,
            reference=options.against,
            inputs=options.inputs,
            seconds=options.seconds,
            progress=say,
        )
    finally:
        if live:
            control("\r\x1b[K", sys.stderr)
    code = 0 if found.better_than(options.fail_on) else 1
    if options.format == "json":
        print(json.dumps(found.as_json(), indent=1))
        return code
    if options.format == "github":
        for symptom in found.symptoms:
            level = {"wrong": "error", "risk": "warning", "note": "notice"}[symptom.severity]
            text = " ".join(tr(part) for part in (symptom.what, symptom.why, symptom.then))
            print(_annotation(level, options.model, "doctor", text))
        print(tr(found.verdict("--against net.py:factory")))
        return code
    print(tr(found.subject))
    for symptom in found.symptoms:
        print()
        write_coloured(symptom.severity, tr(symptom.severity))
        print(joined(": ", ["", plain(tr(symptom.what))]))
        print(f"  {plain(tr(symptom.why))}\n  {plain(tr(symptom.then))}")
        _write_place(*symptom.place)
    print("\n" + tr(found.verdict("--against net.py:factory")))
    return code


def _annotation(level: str, path: Path, command: str, text: str) -> str:
    """Return an annotation of GitHub's, which percent-encodes what would end a part of it."""
    file = "".join(f"%{ord(c):02X}" if c in "%\r\n:," else c for c in str(path))
    return f"::{level} file={file},title=onnxlab {command}::{plain(text).replace('%', '%25')}"


def _write_place(chapter: str, section: str) -> None:
    """Write where something is explained: a link where the terminal has links, and how to come there."""
    from onnxlab.course.chapters import learner_root
    from onnxlab.diagnosis.messages import explained

    root = learner_root(Path.cwd())
    edition = Path("notebooks") if spoken_language() == "en" else Path("notebooks", spoken_language())
    notebook = root / edition / f"{chapter}.ipynb" if root else None
    sys.stdout.write("  ")
    if notebook and notebook.is_file():
        write_link(tr(explained(chapter, section)), notebook.as_uri())
    else:
        sys.stdout.write(tr(explained(chapter, section)))
    print(" " + tr("To read it: onnxlab show {chapter}", chapter=chapter.partition("_")[0]))


def _why(options: argparse.Namespace) -> int:
    from onnxlab.notebook.message_text import message_text

    message = " ".join(options.text)
    if not message and not sys.stdin.isatty():
        message = sys.stdin.buffer.read().decode(errors="replace")
    if not message.strip():
        what, then = "No message was given.", 'Give it in quotation marks, onnxlab why "...", or by a pipe.'
        raise NoMessage(what, "", then)
    said = message_text(message)
    print("\n".join(said.before))
    if said.place:
        _write_place(*said.place)
    if said.after:
        print("\n".join(said.after))
    return 0 if said.known else 1


def _compare(options: argparse.Namespace) -> int:
    from onnxlab.diagnosis.pair import compare_files

    pair = compare_files(
        *options.models,
        inputs=options.inputs,
        atol=options.atol,
        rtol=options.rtol,
        provider=options.provider,
        seconds=options.seconds,
    )
    if options.html:
        from onnxlab.notebook.graph.comparison_page import write_comparison

        first, second = options.models
        write_comparison(options.html, first, second, pair)
    code = 0 if pair.equal or (options.fail_on == "outputs" and pair.outputs_agree) else 1
    if options.format == "json":
        page = {"page": str(options.html)} if options.html else {}
        print(json.dumps(pair.as_json() | page, indent=1))
        return code
    if options.format == "github":
        level = "error" if code else "notice"
        for finding in pair.findings:
            print(_annotation(level, options.models[1], "compare", tr(finding)))
    else:
        _write_pair(pair)
    if options.html:
        print(tr("Both graphs: {path}", path=plain(options.html)))
    print(plain(tr(pair.tried)))
    return code


def _write_pair(pair: "Pair") -> None:
    print(tr(pair.structure))
    if pair.outputs:
        columns = ("output", "type and shape", "largest difference", "relative")
        rows = [
            (*(tr(column, columns) for column in columns), ""),
            *(tuple(map(tr, row)) for row in pair.outputs),
        ]
        if len(rows) > _ROWS:
            wrong = [row for row in rows[1:] if row[4] != tr("right")]
            rest = tr("... and {number} more", number=len(rows) - _ROWS)
            rows = [
                rows[0],
                *(wrong + [row for row in rows[1:] if row not in wrong])[: _ROWS - 1],
                (rest, *[""] * 4),
            ]
        print("\n" + "\n".join(aligned(rows, heading=1)))
    print("\n" + "\n".join(plain(tr(finding)) for finding in pair.findings) + "\n")


def _open(options: argparse.Namespace) -> int:
    from onnxlab.cli.model_page import serve_comparison, serve_model

    shown = " | ".join(plain(path) for path in (options.model, options.other) if path)

    def ready(address: str) -> None:
        print(tr("{model} is at {address} until you press Ctrl+C.", model=shown, address=address), flush=True)

    if options.other:
        serve_comparison(options.model, options.other, ready, browse=not options.no_browser)
    else:
        serve_model(options.model, ready, browse=not options.no_browser)
    return 0
