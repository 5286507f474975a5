"""A class at once: seconds from sign-in to a kernel, memory for each learner, and whether anything gets lost.

A class is served on this machine. One learner signs in; twenty do so in the same moment; then the rest.
Each draws a graph and works through two labs: some solve everything, some the first exercise, some nothing.
Between the labs all processes of the class are killed, and it is served again. In the end the labs are
collected and graded: every mark has to be the one that the learner's notebook is worth.

    python -m measurements.benchmarks.classroom [--learners 20] [--all 40] [--write]

As root only (all learners are users of their own then, and only root may read what memory others share), on a
machine that does nothing else.
"""

import asyncio
import csv
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psutil

from class_support.hub import Hub, Seat, finish, hub
from measurements.benchmarks import report
from onnxlab.kit.exercise import lab as lab_record
from tests.support.labs import solved

LABS = ("lab03_trace_breakers", "lab04_asinh")
GRAPH = (
    "from onnxlab import export, graph\nimport torch, onnxruntime",
    "graph(export(torch.nn.Linear(2, 2), torch.ones(1, 2)))",
)
PATIENCE = 1800.0
"""Seconds that a learner waits for a server or a cell while all others work, too."""


def work_of(place: int, lab: str) -> set[str]:
    """Return the exercises of a lab that a learner solves: all, the first one or none, in turn."""
    ids = [exercise.id for exercise in lab_record(lab).exercises]
    return [set(ids), {ids[0]}, set()][(place + LABS.index(lab)) % 3]


def worth(place: int) -> int:
    """Return the points of a learner's work."""
    return sum(
        exercise.points
        for lab in LABS
        for exercise in lab_record(lab).exercises
        if exercise.id in work_of(place, lab)
    )


async def sit_down(seat: Seat) -> float:
    """Sign in, start a server and a kernel; return the seconds until the kernel answers."""
    began = time.monotonic()
    status, page = await seat.sign_in()
    assert status == 302, page
    await seat.start_server(PATIENCE)
    await seat.open_kernel()
    assert await seat.run("print(6 * 7)", PATIENCE) == "42\n"
    return time.monotonic() - began


async def see_a_graph(seat: Seat) -> None:
    """Draw a graph as in the first chapter, which loads torch and ONNX Runtime."""
    outputs = [await seat.run(source, PATIENCE) for source in GRAPH]
    assert "Graph(" in outputs[-1], outputs


async def work(seat: Seat, place: int, lab: str) -> None:
    """Write the answers, save the notebook, run all its cells."""
    await seat.connect()  # while it waited, it did not answer the server's pings as a browser does
    book = solved(lab, work_of(place, lab))
    await seat.ask("PUT", f"api/contents/labs/{lab}.ipynb", {"type": "notebook", "content": book})
    for cell in book.cells:
        if cell.cell_type == "code":
            await seat.run(cell.source, PATIENCE)


async def is_kept(seat: Seat, place: int, lab: str) -> None:
    """Assert that the notebook is as the learner saved it."""
    file = await seat.ask("GET", f"api/contents/labs/{lab}.ipynb")
    saved = [cell.source for cell in solved(lab, work_of(place, lab)).cells]
    assert [cell["source"] for cell in file["content"]["cells"]] == saved, f"{seat.name}: {lab}"


def memory(room: Hub) -> tuple[float, float]:
    """Return the megabytes of the hub, and of all learners (PSS: shared memory is divided)."""
    own = learners = 0.0
    for process in [
        psutil.Process(room.process.pid),
        *psutil.Process(room.process.pid).children(recursive=True),
    ]:
        try:
            part, user = process.memory_full_info().pss / 1e6, process.uids().real
        except psutil.NoSuchProcess:
            continue
        own, learners = (own + part, learners) if user == os.geteuid() else (own, learners + part)
    return own, learners


async def watch(room: Hub, most: list[float]) -> None:
    """Measure the learners' memory until this is cancelled; write the maximum into the list."""
    while True:
        most[0] = max(most[0], (await asyncio.to_thread(memory, room))[1])
        await asyncio.sleep(5)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Print to stderr what is going on, and how long it took."""
    print(f"  {what} ...", end="", file=sys.stderr, flush=True)
    began = time.monotonic()
    yield
    print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)


async def first_lesson(room: Hub, seats: list[Seat], at_once: int) -> list[tuple[object, ...]]:
    """Sign the learners in, group by group, and draw a graph for each; return the table's rows."""
    rows: list[tuple[object, ...]] = []
    groups = [seats[:1], seats[1 : at_once + 1], seats[at_once + 1 :]]
    before = 0
    for group in filter(None, groups):
        with progress(f"{len(group)} sign in at once, beside {before}"):
            seconds = await asyncio.gather(*map(sit_down, group))
        await asyncio.gather(*map(see_a_graph, group))
        own, with_torch = memory(room)
        before += len(group)
        rows.append(
            (
                f"{len(group)} at once, {before} in all",
                f"{statistics.median(seconds):.1f}",
                f"{max(seconds):.1f}",
                f"{own:.0f}",
                f"{with_torch / before:.0f}",
            )
        )
    return rows


async def everybody(seats: list[Seat], room: Hub, lab: str) -> float:
    """Let all learners work at a lab; return the maximum of megabytes per learner."""
    most = [0.0]
    watching = asyncio.create_task(watch(room, most))
    with progress(f"{len(seats)} work at {lab}"):
        await asyncio.gather(*(work(seat, place, lab) for place, seat in enumerate(seats)))
    watching.cancel()
    return most[0] / len(seats)


@asynccontextmanager
async def seated(room: Hub, learners: int) -> AsyncIterator[list[Seat]]:
    """Yield so many learners, whose connections are closed in the end; their servers keep running."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Seat(room, f"learner-{place:02}")) for place in range(learners)
        ]


async def before_the_kill(room: Hub, learners: int, at_once: int) -> tuple[list[tuple[object, ...]], float]:
    """The first half: all learners sign in and save the first lab."""
    async with seated(room, learners) as seats:
        rows = await first_lesson(room, seats, at_once)
        return rows, await everybody(seats, room, LABS[0])


async def after_the_kill(room: Hub, learners: int) -> float:
    """The second half: all learners find their work and save the second lab."""
    async with seated(room, learners) as seats:
        with progress(f"{learners} sign in again"):
            await asyncio.gather(*map(sit_down, seats))
            await asyncio.gather(*(is_kept(seat, place, LABS[0]) for place, seat in enumerate(seats)))
        return await everybody(seats, room, LABS[1])


def kill(room: Hub) -> None:
    """Kill the hub, and then the processes below it."""
    below = psutil.Process(room.process.pid).children(recursive=True)
    os.kill(room.process.pid, signal.SIGKILL)
    for process in below:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(below, timeout=60)


def marks(folder: Path, out: Path) -> dict[str, float]:
    """Collect and grade the learners' labs; return their points."""
    command = [sys.executable, "-m", "onnxlab.cli"]
    subprocess.run(
        [*command, "class", "take", str(folder), str(out / "taken")], check=True, capture_output=True
    )
    for notebook in (out / "taken").glob("*/*.ipynb"):
        if notebook.stem not in LABS:
            notebook.unlink()
    grade = [*command, "grade", str(out / "taken"), "--out", str(out / "grades"), "--jobs", "2"]
    subprocess.run(grade, check=True, capture_output=True)
    with (out / "grades" / "grades.csv").open(newline="") as file:
        return {row["student"]: float(row["total"]) for row in csv.DictReader(file)}


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--learners", type=int, default=20, help="who sign in at the same moment")
    parser.add_argument("--all", type=int, default=40, help="learners in the class")
    options = parser.parse_args()
    if os.geteuid():
        msg = "This has to run as root: learners are users of their own then."
        raise SystemExit(msg)
    with tempfile.TemporaryDirectory(prefix="onnxlab-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        folder = Path(name, "class")
        with hub(folder) as room:
            rows, first = finish(before_the_kill(room, options.all, options.learners))
            kill(room)
        with hub(folder) as room:
            second = finish(after_the_kill(room, options.all))
        with progress("collecting and grading"):
            points = marks(folder, Path(name))
        expected = {f"learner-{place:02}": float(worth(place)) for place in range(options.all)}
        assert points == expected, {
            who: (points.get(who), expected[who]) for who in expected if points.get(who) != expected[who]
        }
    most = max(first, second)
    own = max(float(str(row[3])) for row in rows)
    fit = [f"{(size * 1000 - own - 500) / most:.0f} in {size} GB" for size in (8, 24)]
    text = report.table(
        [
            "sign in",
            "seconds to a kernel, median",
            "longest",
            "MB of the class itself",
            "MB each, torch loaded",
        ],
        rows,
    )
    text += (
        f"\n\nThen all worked at two labs, {most:.0f} MB each at the most, on average over everybody. "
        f"By that figure, with 0.5 GB for the system, {' and '.join(fit)} can work in the same moment. "
        f"Between the labs the class was killed: all {options.all} found their saved work at the next start, "
        f"and all {options.all} marks in the end are what the notebooks are worth "
        f"({min(points.values()):.0f} to {max(points.values()):.0f} points)."
    )
    report.finish("classroom", text, options, ("jupyterhub", "jupyterlab", "torch"))


if __name__ == "__main__":
    main()
