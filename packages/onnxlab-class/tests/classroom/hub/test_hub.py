"""A class on a real hub, proxy and kernels on loopback: it works, is graded, and is served again."""

import asyncio
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("jupyterhub")

from class_support.hub import (
    DAEMON,
    INSTRUCTOR_PASSWORD,
    PIN,
    ROOT,
    Hub,
    Seat,
    alive,
    below,
    finish,
    gone,
    hub,
    kill,
    learner,
    logs,
    processes_of,
    runtime_of,
    user_of,
)
from onnxlab.kit.exercise import lab as lab_record
from onnxlab_class.classroom.course.folder import open_class
from tests.support.labs import solved

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
]

LEARNERS = ("traefik", "routes")  # as files of the hub's are called
LAB = "lab07_pooling_indices"
EXERCISES = lab_record(LAB).exercises
GREEDY = "kept = []\nwhile True: kept.append(b'x' * 2**26)"
SHARED = Path("/dev/shm", f"onnxlab-test-{os.getpid()}")
# Too many processes, which sleep; in sessions of their own, so that the kernel's end does not end them.
CROWD = """
import os, time
for _ in range(300):
    if not os.fork():
        os.setsid()
        time.sleep(600)
        os._exit(0)
"""


def first_graph(chapter: Path) -> list[str]:
    """The cells of a chapter up to the first that draws a graph."""
    book = nbformat.read(chapter, as_version=4)
    cells = [cell.source for cell in book.cells if cell.cell_type == "code"]
    return cells[: next(i for i, source in enumerate(cells) if re.search(r"^graph\(", source, re.M)) + 1]


async def lesson(room: Hub, name: str, solutions: set[str], chapter: list[str]) -> None:
    """A learner runs cells of a chapter, saves the lab with some solutions and runs its first check."""
    async with learner(room, name) as seat:
        for source in chapter:
            output = await seat.run(source, 240)
        assert not chapter or "Graph(first.onnx, 2 nodes)" in output, output
        book = solved(LAB, solutions)
        await seat.ask("PUT", f"api/contents/labs/{LAB}.ipynb", {"type": "notebook", "content": book})
        checks = [cell.source for cell in book.cells if cell.cell_type == "code"]
        first = next(i for i, source in enumerate(checks) if source.startswith("check("))
        for source in checks[: first + 1]:
            output = await seat.run(source, 240)
        assert "passed" in output


def command(*arguments: str) -> str:
    """Run a command of the package beside the hub."""
    command = [sys.executable, "-m", "onnxlab.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_class_works_is_graded_and_finds_its_feedback(room, tmp_path):
    ids = [exercise.id for exercise in EXERCISES]

    async def lessons() -> None:
        chapter = first_graph(ROOT / "notebooks" / "00_start_here.ipynb")
        every, some = lesson(room, LEARNERS[0], {*ids}, chapter), lesson(room, LEARNERS[1], {ids[0]}, [])
        await asyncio.gather(every, some)

    async def feedback_page() -> str:
        async with Seat(room, LEARNERS[1]) as seat:
            assert (await seat.sign_in())[0] == 302
            await seat.start_server()
            page = await seat.ask("GET", "api/contents/feedback/grades.html?type=file&format=text")
            return str(page["content"])

    finish(lessons())
    (room.folder / "learners" / "idle" / "labs").mkdir(parents=True, exist_ok=True)  # handed in nothing
    assert "2 labs of 2 learners" in command("class", "take", str(room.folder), "--lab", LAB)
    assert {path.name for path in open_class(room.folder).submitted.iterdir()} == {*LEARNERS}
    out = tmp_path / "grades"
    command("grade", str(room.folder), "--out", str(out), "--time", "600")
    with (out / "grades.csv").open(newline="") as file:
        totals = {row["student"]: float(row["total"]) for row in csv.DictReader(file)}
    full = [lab_record(LAB).points, EXERCISES[0].points]
    assert totals == dict.fromkeys(totals, 0) | dict(zip(LEARNERS, full, strict=True))
    assert "idle" in totals
    command("class", "feedback", str(room.folder), str(out))
    assert ids[0] in finish(feedback_page())


async def answer_times(other: Seat, runaway: asyncio.Task[str]) -> list[float]:
    """Let somebody run cells until a runaway cell has ended; return how long each took."""
    seconds = []
    while not runaway.done():
        start = time.monotonic()
        assert await other.run("print(6 * 7)") == "42\n"
        seconds.append(time.monotonic() - start)
        await asyncio.sleep(0.05)
    return seconds


def test_runaway_cells_disturb_nobody_and_end_with_their_server(room):
    """One learner uses up memory, then processes; the other can work on, and so can this learner."""

    async def run_away() -> None:
        async with learner(room, LEARNERS[0]) as greedy, learner(room, LEARNERS[1]) as other:
            await other.run("mine = 1")
            task = asyncio.create_task(greedy.run(GREEDY, 300))
            seconds = await answer_times(other, task)
            assert "MemoryError" in task.result()
            assert max(seconds, default=0.0) < 90, seconds  # of a machine on which everything else runs, too
            assert await greedy.run("del kept; print(6 * 7)") == "42\n"  # the same kernel
            await greedy.run(f"open({str(SHARED)!r}, 'w').write('left')")
            assert SHARED.exists() == (os.geteuid() == 0), "only who is a user of their own may"
            if os.geteuid() == 0:
                assert "BlockingIOError" in await greedy.run(CROWD, 300)
                assert len(processes_of(user_of(room, greedy.name))) > 100
            assert await other.run("print(mine)") == "1\n"  # its kernel is still the same
            await greedy.stop_server()

    finish(run_away())
    if os.geteuid() == 0:
        user = user_of(room, LEARNERS[0])
        assert gone(lambda: [*processes_of(user), *([SHARED] if SHARED.exists() else [])])


# Subscribes to what another learner's kernel publishes: each cell and each output.
LISTEN = """
import zmq
listener = zmq.Context().socket(zmq.SUB)
listener.subscribe(b"")
listener.connect({address!r})
print(listener.recv_multipart() if listener.poll(4000) else "nothing")
"""


async def eavesdropping(curious: Seat, other: Seat) -> None:
    """One learner listens to another's kernel, whose address the list of Unix sockets shows."""
    connection = "from ipykernel.connect import get_connection_info; print(get_connection_info())"
    info = json.loads(await other.run(connection))
    address = f"{info['transport']}://{info['ip']}-{info['iopub_port']}"
    listening = asyncio.create_task(curious.run(LISTEN.format(address=address)))
    while not listening.done():
        assert await other.run("print('private')") == "private\n"
    assert listening.result() == "nothing\n"


async def isolation(curious: Seat, other: Seat) -> None:
    """One learner tries to reach what belongs to others."""
    folder = curious.hub.folder
    course = open_class(folder)
    port = re.search(r":(\d+)", await other.run("import os; print(os.environ['JUPYTERHUB_SERVICE_URL'])"))
    assert port
    for path in (
        course.learners / other.name / "labs" / f"{LAB}.ipynb",
        course.learners / other.name,
        course.hub / "cookie_secret",
        course.hub / "passwords.json",
        course.source / LAB / f"{LAB}.ipynb",
        course.gradebook,
        course.release,
        folder / "nbgrader_config.py",
        ROOT / "solutions" / f"{LAB}.ipynb",
    ):
        code = f"import os; p = {str(path)!r}; os.listdir(p) if os.path.isdir(p) else open(p)"
        assert path.exists()
        assert "PermissionError" in await curious.run(code), path
    shown = "from onnxlab.kit import exercise, solutions\n"
    shown += "print(repr(solutions.solution(exercise.exercise('asinh-symbolic')[1])))"
    assert "''" in await curious.run(shown), "a class shows solutions only with --solutions"
    write = f"open({str(course.learners / other.name / 'labs' / 'mine.txt')!r}, 'w')"
    assert "PermissionError" in await curious.run(write)
    connect = f"import socket; socket.create_connection(('127.0.0.1', {port[1]}), 5); print('connected')"
    assert "PermissionError" in await curious.run(connect)
    # A page at another port of this machine would be sent the hub's cookies.
    for listen in ("'0.0.0.0', 0", f"'127.0.0.2', {port[1]}", "'::', 0"):
        family = "socket.AF_INET6" if "::" in listen else "socket.AF_INET"
        code = f"import socket; socket.create_server(({listen}), family={family})"
        assert "PermissionError" in await curious.run(code), listen
    fetch = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:%s', timeout=5).status)"
    assert "URLError" in await curious.run(fetch % curious.hub.url.split(":")[2].strip("/"))
    process = int(await other.run("print(os.getpid())"))
    assert "PermissionError" in await curious.run(f"import os; os.kill({process}, 15)")
    assert "PermissionError" in await curious.run(f"print(open('/proc/{process}/environ').read())")
    await eavesdropping(curious, other)
    for page in (f"user/{other.name}/api/contents/labs", "hub/admin", "services/room/"):
        assert (await curious.get(page))[0] == 403, page


def test_learners_and_the_instructor_reach_only_what_is_theirs(room):
    async def reach() -> None:
        async with learner(room, LEARNERS[0]) as other, learner(room, LEARNERS[1]) as curious:
            await isolation(curious, other)
        async with Seat(room, "instructor", password=INSTRUCTOR_PASSWORD, pin="") as seat:
            assert (await seat.sign_in())[0] == 302
            assert (await seat.get("hub/admin"))[0] == 200
            assert "The room" in (await seat.get("services/room/"))[1]
            await seat.start_server()
            await seat.open_kernel()
            for name in ("hub/passwords.json", "source", "submitted", "nbgrader_config.py"):
                path = room.folder / name
                code = f"import os; p = {str(path)!r}; os.listdir(p) if os.path.isdir(p) else open(p)"
                assert "PermissionError" in await seat.run(code), name

    finish(reach())
    private = runtime_of(room) / "hub"
    named = {str(path.relative_to(private)) for name in LEARNERS for path in private.rglob(f"{name}.json")}
    assert named == {f"confinements/{name}.json" for name in LEARNERS}, "no file of the hub's own"


def test_a_name_belongs_to_its_pin(room):
    async def tries() -> list[tuple[int, str]]:
        replies = []
        for name, pin, password in (
            ("mine", "1357", None),  # the first sign-in
            ("mine", "9999", None),  # another browser, with another PIN
            ("mine", "1357", None),  # another browser, the same person
            ("Mine ", "1357", None),
            ("other", "1357", "seven-green-kite"),  # not the room's password
            ("third", "12", None),  # the PIN is too short
            ("../etc", "1357", None),
            (" Lab04", PIN, None),  # a reserved name
            ("instructor", PIN, None),  # the room's password is not the instructor's
        ):
            async with Seat(room, name, pin) as seat:
                seat.password = password or seat.password
                replies.append(await seat.sign_in())
        return replies

    answers = finish(tries())
    assert [status for status, _ in answers] == [302, 403, 302, 302, 403, 400, 400, 400, 403], answers
    assert "PIN" in answers[5][1]
    assert "begins with a letter" in answers[6][1]
    assert "is the name of a folder of the class: take another one" in answers[7][1]


def test_a_fresh_notebook_is_trusted_and_a_foreign_one_is_not(room):
    async def trusted() -> list[list[bool]]:
        async with learner(room, LEARNERS[1]) as seat:
            fresh = (await seat.ask("GET", "api/contents/notebooks/00_start_here.ipynb"))["content"]
            home = open_class(room.folder).learners / LEARNERS[1]
            foreign = home / "notebooks" / "foreign.ipynb"
            book = nbformat.read(home / "notebooks" / "00_start_here.ipynb", as_version=4)
            book.cells[0].source += " and more"
            nbformat.write(book, foreign)
            os.chown(foreign, home.stat().st_uid, -1)
            copied = (await seat.ask("GET", "api/contents/notebooks/foreign.ipynb"))["content"]
            return [
                [cell["metadata"]["trusted"] for cell in book["cells"] if cell["cell_type"] == "code"]
                for book in (fresh, copied)
            ]

    fresh, foreign = finish(trusted())
    assert len(fresh) > 5
    assert all(fresh)
    assert not any(foreign)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root tries it as somebody else")
def test_a_class_of_an_ordinary_user_is_made_and_its_learners_are_apart_too():
    async def small_session(room: Hub) -> None:
        async with learner(room, LEARNERS[0]) as curious, learner(room, LEARNERS[1]) as other:
            await isolation(curious, other)
            daemons.append(int(await other.run(DAEMON.format(before="", act="pass"))))
            daemons.append(int(await curious.run(DAEMON.format(before="", act="pass"))))
            await curious.stop_server()

    teacher, daemons = 61_234, list[int]()
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        os.chown(name, teacher, teacher)
        with hub(Path(name, "class"), user=teacher) as room:
            assert "Learners run as you" in room.folder.with_name("class.log").read_text()
            finish(small_session(room))
            assert gone(lambda: alive(daemons[1:]))
            kill(room, ["keeper"], daemons[0])


def test_the_hub_ends_and_the_next_one_has_the_work_and_leaves_nothing_either(room):
    async def visit(served: Hub) -> int:
        async with learner(served, LEARNERS[0]) as seat:
            await seat.ask("GET", f"api/contents/labs/{LAB}.ipynb")
            return int(await seat.run(DAEMON.format(before="", act="pass")))

    daemon = finish(visit(room))
    running, runtime = [*below(room.process.pid), daemon], runtime_of(room)
    mine = room.folder / "learners" / LEARNERS[0] / "labs" / f"{LAB}.ipynb"
    assert len(running) > 5
    room.process.send_signal(signal.SIGTERM)
    assert room.process.wait(180) == 0, logs(room.folder)
    assert not alive(running)
    assert not runtime.exists()
    before = mine.read_bytes()
    with hub(room.folder) as next_time:
        daemon = finish(visit(next_time))
        assert mine.read_bytes() == before
        assert mine.stat().st_mode & 0o077 == 0
        if os.geteuid() == 0:
            assert mine.stat().st_uid != 0
        kill(next_time, ["command", "hub"], daemon)
