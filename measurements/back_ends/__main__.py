"""Measure again what chapters 08 and 10 say about other programs: `python -m measurements.back_ends`.

It writes assets/recorded/back_ends.json, in about a quarter of an hour. OpenVINO and ncnn run from the
course's environment (the extra `backends`); MNN, IREE and TVM get one of their own, with the versions in
`OTHERS`, about 250 MB of downloads.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measurements.back_ends.models import write_models
from measurements.back_ends.runners import RUNNERS

RECORD = Path(__file__).parents[2] / "src/onnxlab/assets/recorded/back_ends.json"
HERE = {
    "ONNX Runtime": "onnxruntime",
    "onnx.reference": "onnx",
    "OpenVINO": "openvino",
    "OpenCV": "opencv-python-headless",
    "ncnn": "ncnn",
}
"""The programs in the course's environment, each with its package."""
OTHERS = {"MNN": "MNN==3.6.1", "IREE": "iree-base-compiler==3.13.0", "TVM": "apache-tvm==0.27.0"}
BESIDES = ["iree-base-runtime==3.13.0", "onnx", "numpy"]
LONGEST = 300  # seconds that one model may take in one program


def other_python(folder: Path) -> Path:
    """Install MNN, IREE and TVM into an environment of their own, and return its Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *OTHERS.values(), *BESIDES], check=True)
    return python


def measure(program: str, python: Path | str, folder: Path, model: str) -> dict[str, Any]:
    """Run one model in one program, in a process of its own."""
    runner = Path(__file__).with_name("runners.py")
    command = [str(python), "-W", "ignore", str(runner), program, str(folder), model]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST, cwd=folder, errors="replace"
        )
    except subprocess.TimeoutExpired:  # says something of this machine, and nothing of the program
        sys.exit(
            f"{program} gave no answer on {model} within {LONGEST} seconds. Measure again on an idle machine."
        )
    if done.returncode:
        return {"verdict": "refused", "says": f"the process ended with code {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Write the models, run each in every program, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m measurements.back_ends", description=__doc__)
    parser.add_argument("--environment", type=Path, help="where MNN, IREE and TVM are, or will be, installed")
    parser.add_argument(
        "--only", nargs="+", choices=RUNNERS, default=list(RUNNERS), help="keep the others' results"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "models")
        folder.mkdir()
        models: dict[str, dict[str, Any]] = {
            name: {"shows": shown, "results": dict.fromkeys(RUNNERS)}
            for name, shown in write_models(folder).items()
        }
        if options.only != list(RUNNERS):
            for name, recorded in json.loads(RECORD.read_text(encoding="utf-8"))["models"].items():
                models[name]["results"] |= recorded["results"]
        elsewhere = set(options.only) - set(HERE)
        other = other_python(options.environment or Path(temporary, "environment")) if elsewhere else ""
        for program in options.only:
            for name, model in models.items():
                python = sys.executable if program in HERE else other
                model["results"][program] = measure(program, python, folder, name)
            verdicts = [model["results"][program]["verdict"] for model in models.values()]
            print(
                program, {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}, flush=True
            )
    versions = {program: version(package) for program, package in HERE.items()}
    versions |= {program: pin.partition("==")[2] for program, pin in OTHERS.items()}
    record = {
        "measured": f"{datetime.date.today():%Y-%m}",
        "versions": {"torch": version("torch").partition("+")[0]}
        | {name: versions[name] for name in RUNNERS},
        "models": models,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"Written: {RECORD.name}")


if __name__ == "__main__":
    main()
