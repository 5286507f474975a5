"""From a clone to a page: the first start of the course, which installs everything, and a second one.

A clone of this repository in a temporary folder is started with `course.py` as a newcomer does. pip takes its
packages from where it is set up to take them: the first start's seconds are the network's and the disk's.

    python -m measurements.benchmarks.start [--write]
"""

import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from measurements.benchmarks import report

ROOT = Path(__file__).parents[2]


def seconds_until_it_answers(clone: Path) -> float:
    """Start the course, wait until JupyterLab's page comes, end it."""
    port = random.SystemRandom().randrange(20_000, 32_000)
    command = [sys.executable, "course.py", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0"]
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=clone, stdout=subprocess.DEVNULL, env={**os.environ, "JUPYTER_TOKEN": "benchmark"}
    )
    try:
        while True:
            if process.poll() is not None:
                msg = f"course.py ended with {process.returncode} before JupyterLab answered."
                raise SystemExit(msg)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/lab?token=benchmark", timeout=5):
                    return time.perf_counter() - began
            except OSError:
                time.sleep(0.05)
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = report.arguments(__doc__)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name) / "onnx-lab"
        began = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        rows = [("clone", f"{time.perf_counter() - began:.1f}")]
        rows.append(
            ("first start: the environment is made and filled", f"{seconds_until_it_answers(clone):.0f}")
        )
        rows += [("a later start", f"{seconds_until_it_answers(clone):.1f}") for _ in range(3)]
        files = [
            path.stat() for path in (clone / ".venv").rglob("*") if path.is_file() and not path.is_symlink()
        ]
        size = sum(file.st_size for file in files) / 1e9
    text = report.table(["until JupyterLab's page answers", "seconds"], rows)
    report.finish(
        "start", f"{text}\n\nThe environment takes {size:.1f} GB.", options, ("jupyterlab", "torch")
    )


if __name__ == "__main__":
    main()
