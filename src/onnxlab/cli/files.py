"""An engineer's commands, `onnxlab doctor`, `why`, `compare`, `open`: arguments and printing only."""

import argparse
import json
import logging
import sys
from pathlib import Path

from onnxlab.notebook.language import joined, requested_language, speak, tr
from onnxlab.plain_text import aligned

_COLOURS = {"wrong": "31", "risk": "33", "note": "36"}


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to a parser."""
    doctor = commands.add_parser("doctor", help="what is wrong or risky in a model file, and what to do")
    doctor.add_argument("model", type=Path, metavar="MODEL.onnx")
    doctor.add_argument(
        "--against",
        default="",
        metavar="MODULE:FACTORY",
        help="compare with PyTorch: factory() returns (module, inputs)",
    )
    doctor.add_argument(
        "--seconds", type=float, default=60, help="how long loading and running may take (60)"
    )
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(command=_doctor)
    why = commands.add_parser("why", help="what an error message means, and what helps")
    why.add_argument(
        "text", nargs="*", metavar="MESSAGE", help="the message or traceback; else it is read from a pipe"
    )
    why.set_defaults(command=_why)
    compare = commands.add_parser(
        "compare", help="two models: their graphs, and their outputs where both run"
    )
    compare.add_argument("models", nargs=2, type=Path, metavar="MODEL.onnx")
    compare.set_defaults(command=_compare)
    show = commands.add_parser("open", help="a model's graph as a page in the browser")
    show.add_argument("model", type=Path, metavar="MODEL.onnx")
    show.add_argument("--no-browser", action="store_true", help="only print the address")
    show.set_defaults(command=_open)


def _doctor(options: argparse.Namespace) -> int:
    from onnxlab.diagnosis.examination import examine
    from onnxlab.errors import OnnxLabError

    speak(requested_language())
    terminal = sys.stderr.isatty() and not options.json

    def say(what: str) -> None:
        if terminal:
            print(f"\r\x1b[K{tr(what)} ...", end="", file=sys.stderr, flush=True)

    sys.path.insert(0, str(Path.cwd()))  # as for `python -m`: the factory of --against is often here
    try:
        found = examine(options.model, reference=options.against, seconds=options.seconds, progress=say)
    except OnnxLabError as error:
        print(tr(str(error)), file=sys.stderr)
        return 2
    finally:
        if terminal:
            print("\r\x1b[K", end="", file=sys.stderr)
    if options.json:
        print(json.dumps(found.as_json(), indent=1))
        return 0 if found.healthy else 1
    print(tr(f"{found.name}: {found.nodes:,} nodes, {found.size:,} bytes"))
    for symptom in found.symptoms:
        weight = tr(symptom.weight)
        if sys.stdout.isatty():
            weight = f"\x1b[{_COLOURS[symptom.weight]}m{weight}\x1b[0m"
        print("\n" + joined(": ", [weight, tr(symptom.what)]))
        print(f"  {tr(symptom.why)}\n  {tr(symptom.then)}")
        print("  " + tr(symptom.explained))
    if not found.symptoms:
        print(tr("Nothing was found that is wrong or risky."))
    return 0 if found.healthy else 1


def _why(options: argparse.Namespace) -> int:
    from onnxlab.diagnosis.messages import explain
    from onnxlab.notebook.why import answer_lines

    speak(requested_language())
    text = " ".join(options.text) if options.text else sys.stdin.read()
    print("\n".join(answer_lines(text)))
    return 0 if explain(text) else 1


def _compare(options: argparse.Namespace) -> int:
    from onnxlab.diagnosis.pair import compare_files
    from onnxlab.errors import OnnxLabError

    speak(requested_language())
    try:
        pair = compare_files(*options.models)
    except OnnxLabError as error:
        print(tr(str(error)), file=sys.stderr)
        return 2
    print(tr(pair.structure))
    if pair.outputs:
        heading = (tr("output"), tr("shapes"), tr("largest difference"))
        print("\n" + "\n".join(aligned([heading, *pair.outputs], heading=1)))
    print("\n" + tr(pair.verdict))
    return 0 if pair.equal else 1


def _open(options: argparse.Namespace) -> int:
    import netron

    from onnxlab.model.load import load

    load(options.model)  # Netron would show its error on the page, and keep serving
    speak(requested_language())
    logging.getLogger("netron").setLevel(logging.WARNING)  # it says the address once more
    address = netron.start(str(options.model), address=("localhost", 0), browse=not options.no_browser)
    print(tr(f"{options.model} is at http://{address[0]}:{address[1]} until you press Ctrl+C."), flush=True)
    netron.wait()
    return 0
