"""A kernel that is forked from a process with torch loaded, and one that is started: seconds and memory.

Both ways in turn, medians of several runs: until a kernel has imported torch, onnx and onnxruntime, until its
first export is done, the memory it shares with nobody and its proportional part (PSS), while four of them
run. Then nbval on some notebooks, a kernel for each. Linux only.

    python benchmarks/kernels.py [--runs 5] [--together 4] [--nbval labs]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[1]
WAYS = {"started": "local-provisioner", "forked": "onnxlab-forked"}
IMPORTS = "import torch, onnx, onnxruntime"
EXPORT = (
    "import io\n"
    "with __import__('contextlib').redirect_stdout(io.StringIO()):\n"
    "    torch.onnx.export(torch.nn.ReLU(), (torch.ones(1),), io.BytesIO(), dynamo=True, verbose=False)"
)
MB = 2**20


class Kernel:
    def __init__(self, way: str) -> None:
        began = time.perf_counter()
        self.manager = KernelManager(kernel_name="python3")
        self.manager.kernel_spec.metadata["kernel_provisioner"] = {
            "provisioner_name": WAYS[way],
            "config": {},
        }
        self.manager.start_kernel(stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)
        self.ready = time.perf_counter() - began
        self.run(IMPORTS)
        self.imported = time.perf_counter() - began

    def run(self, code: str) -> float:
        """Run a cell; return its seconds."""
        began = time.perf_counter()
        reply = self.client.execute_interactive(code, timeout=120, output_hook=lambda message: None)
        assert reply["content"]["status"] == "ok", reply["content"]["evalue"]
        return time.perf_counter() - began

    def memory(self) -> tuple[float, float]:
        """Return its private and its proportional megabytes."""
        lines = Path(f"/proc/{self.manager.provisioner.pid}/smaps_rollup").read_text().splitlines()
        found = {words[0]: int(words[1]) / 1024 for words in map(str.split, lines[1:])}
        return found["Private_Clean:"] + found["Private_Dirty:"], found["Pss:"]

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def measure(way: str, together: int) -> dict[str, float]:
    """Start some kernels, one after the other, and look at what they take."""
    kernels = [Kernel(way) for _ in range(together)]
    try:
        facts = {
            "s until ready": statistics.median(each.ready for each in kernels),
            "s until torch, onnx, onnxruntime are imported": statistics.median(
                each.imported for each in kernels
            ),
        }
        private, proportional = zip(*(each.memory() for each in kernels), strict=True)
        facts["MB private, after the imports"] = statistics.median(private)
        facts["MB proportional (PSS), after the imports"] = statistics.median(proportional)
        facts["s for the first export (dynamo)"] = statistics.median(each.run(EXPORT) for each in kernels)
        facts["MB private, after an export"] = statistics.median(each.memory()[0] for each in kernels)
    finally:
        for each in kernels:
            each.close()
    return facts


def nbval(way: str, places: list[str]) -> float:
    """Return the seconds that nbval takes for notebooks."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval"]
    command += ["--nbval-current-env", "--nbval-cell-timeout=600", *places]
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "JUPYTER_DEFAULT_PROVISIONER_NAME": WAYS[way]},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    return time.perf_counter() - began


def warm_megabytes(folder: str) -> float:
    """Return what the warm process has in memory."""
    for process in psutil.process_iter():
        try:
            if "onnxlab.kernels.warm" in process.cmdline() and process.cwd().startswith(folder):
                return process.memory_info().rss / MB
        except psutil.Error:
            continue
    return float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--nbval", nargs="*", default=["labs"], help="notebooks or folders")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:  # its end ends the warm process
        os.environ.update(ONNXLAB_KERNELS_FOLDER=folder, ORT_DISABLE_TELEMETRY="1")
        first = Kernel("forked")
        first.close()
        print(f"the first forked kernel, with its warm process: {first.imported:.2f} s, ", end="")
        print(f"{warm_megabytes(folder):.0f} MB", flush=True)
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(options.runs):
            for way, facts in found.items():
                facts.append(measure(way, options.together))
        for _ in range(options.runs if options.nbval else 0):
            for way, facts in found.items():
                facts.append({f"s for nbval {' '.join(options.nbval)}": nbval(way, options.nbval)})
    names = dict.fromkeys(name for facts in found["started"] for name in facts)
    print(f"\n{'':48}{'started':>9}{'forked':>9}")
    for name in names:
        values = [statistics.median(each[name] for each in found[way] if name in each) for way in WAYS]
        print(f"{name:48}{values[0]:9.2f}{values[1]:9.2f}")


if __name__ == "__main__":
    main()
