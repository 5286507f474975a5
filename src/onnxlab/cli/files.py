"""An engineer's commands, `onnxlab doctor`, `why`, `compare`, `open`: arguments and printing only."""

import argparse
import json
import math
import sys
from pathlib import Path

from onnxlab.cli.terminal import control, write_coloured, write_link
from onnxlab.errors import OnnxLabError
from onnxlab.language import joined, requested_language, speak, tr
from onnxlab.plain_text import aligned, plain


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
    doctor.add_argument("--json", action="store_true", help="for programs")
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
        "--atol", type=_tolerance, default=1e-5, help="which difference is allowed (0.00001)"
    )
    compare.add_argument(
        "--rtol", type=_tolerance, default=1e-5, help="or relative to an output's largest value (0.00001)"
    )
    compare.add_argument("--json", action="store_true", help="for programs")
    compare.set_defaults(command=_compare)
    show = commands.add_parser(
        "open",
        help="a model's graph as a page in the browser",
        epilog="Example: onnxlab open model.onnx",
    )
    show.add_argument("model", type=Path, metavar="MODEL.onnx")
    show.add_argument("--no-browser", action="store_true", help="only print the address")
    show.set_defaults(command=_open)


def _tolerance(text: str) -> float:
    """Read a tolerance.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number < math.inf:  # false for nan
        return number
    raise argparse.ArgumentTypeError(f"a number from 0 on is needed, not {text[:40]!r}")


def _doctor(options: argparse.Namespace) -> int:
    from onnxlab.diagnosis.examination import examine

    speak(requested_language())
    live = sys.stderr.isatty() and not options.json

    def say(what: str) -> None:
        if live:
            control("\r\x1b[K", sys.stderr)
            print(f"{tr(what)} ...", end="", file=sys.stderr, flush=True)

    try:
        found = examine(options.model, reference=options.against, seconds=options.seconds, progress=say)
    finally:
        if live:
            control("\r\x1b[K", sys.stderr)
    if options.json:
        print(json.dumps(found.as_json(), indent=1))
        return 0 if found.healthy else 1
    print(tr("{found.name}: {found.nodes:,} nodes, {found.size:,} bytes", found=found))
    for symptom in found.symptoms:
        print()
        write_coloured(symptom.severity, tr(symptom.severity))
        print(joined(": ", ["", plain(tr(symptom.what))]))
        print(f"  {plain(tr(symptom.why))}\n  {plain(tr(symptom.then))}")
        _write_place(*symptom.place)
    print("\n" + tr(found.verdict("--against net.py:factory")))
    return 0 if found.healthy else 1


def _write_place(chapter: str, section: str) -> None:
    """Write where something is explained: a link where the terminal has links, and how to come there."""
    from onnxlab.course.chapters import learner_root
    from onnxlab.diagnosis.messages import explained

    root = learner_root(Path.cwd())
    edition = Path("notebooks") if requested_language() == "en" else Path("notebooks", requested_language())
    notebook = root / edition / f"{chapter}.ipynb" if root else None
    sys.stdout.write("  ")
    if notebook and notebook.is_file():
        write_link(tr(explained(chapter, section)), notebook.as_uri())
    else:
        sys.stdout.write(tr(explained(chapter, section)))
    print(" " + tr("To read it: onnxlab show {chapter}", chapter=chapter.partition("_")[0]))


def _why(options: argparse.Namespace) -> int:
    from onnxlab.notebook.message_text import message_text

    speak(requested_language())
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

    speak(requested_language())
    pair = compare_files(*options.models, atol=options.atol, rtol=options.rtol)
    if options.json:
        print(json.dumps(pair.as_json(), indent=1))
        return 0 if pair.equal else 1
    print(tr(pair.structure))
    if pair.outputs:
        heading = (tr("output"), tr("shapes"), tr("largest difference"))
        print("\n" + "\n".join(aligned([heading, *pair.outputs], heading=1)))
    print("\n" + tr(pair.verdict))
    return 0 if pair.equal else 1


def _open(options: argparse.Namespace) -> int:
    from onnxlab.cli.model_page import serve_model

    speak(requested_language())

    def ready(address: str) -> None:
        print(
            tr(
                "{model} is at {address} until you press Ctrl+C.", model=plain(options.model), address=address
            ),
            flush=True,
        )

    serve_model(options.model, ready, browse=not options.no_browser)
    return 0
