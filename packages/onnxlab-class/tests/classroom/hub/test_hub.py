"""A class on a real hub, proxy and kernels on loopback: three learners, one of them with runaway cells."""

import asyncio
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("jupyterhub")

from class_support.hub import (
    INSTRUCTOR_PASSWORD,
    PIN,
    ROOT,
    Hub,
    Seat,
    below,
    command_lines,
    finish,
    hub,
    logs,
    processes_of,
)
from onnxlab.kit.exercise import lab as lab_record
from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.hub.accounts import Accounts
from tests.support.labs import solved

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
]

LEARNERS = [f"learner-{number}" for number in range(3)]
LAB = "lab03_trace_breakers"
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

# Leaves a process, and prints its id.
DAEMON = """
import os, time
pid = os.fork()
if not pid:
    os.setsid()
    time.sleep(600)
    os._exit(0)
print(pid)
"""


@pytest.fixture(scope="module")
def room() -> Iterator[Hub]:
    """A new class, served."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # learners may be users of their own, who have to get in
        with hub(Path(name, "class"), "--memory", "1500") as running:
            yield running


def code_cells(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def first_graph(chapter: Path) -> list[str]:
    """The cells of a chapter up to the first that draws a graph."""
    cells = code_cells(chapter)
    return cells[: next(i for i, source in enumerate(cells) if re.search(r"^graph\(", source, re.M)) + 1]


def work_of(place: int) -> set[str]:
    """The exercises that a learner solves: all, the first, none."""
    ids = [exercise.id for exercise in lab_record(LAB).exercises]
    return [set(ids), {ids[0]}, set()][place]


async def lesson(seat: Seat, place: int) -> None:
    """A learner starts a server, draws a chapter's first graph, saves the lab and runs a check."""
    status, page = await seat.sign_in()
    assert status == 302, page
    await seat.start_server()
    await seat.open_kernel()
    for source in first_graph(ROOT / "notebooks" / "00_start_here.ipynb"):
        output = await seat.run(source, 240)
    assert "Graph(first.onnx, 2 nodes)" in output, output
    book = solved(LAB, work_of(place))
    await seat.ask("PUT", f"api/contents/labs/{LAB}.ipynb", {"type": "notebook", "content": book})
    checks = [cell.source for cell in book.cells if cell.cell_type == "code"]
    first = next(i for i, source in enumerate(checks) if source.startswith("check("))
    for source in checks[: first + 1]:
        output = await seat.run(source, 240)
    assert ("passed" in output) == (lab_record(LAB).exercises[0].id in work_of(place)), output


async def answer_times(others: list[Seat], runaway: asyncio.Task[str]) -> list[float]:
    """Let others run cells until a runaway cell has ended; return how long each took."""
    seconds = []
    while not runaway.done():
        for seat in others:
            start = time.monotonic()
            assert await seat.run("print(6 * 7)") == "42\n"
            seconds.append(time.monotonic() - start)
        await asyncio.sleep(0.05)
    return seconds


async def class_session(room: Hub) -> None:
    seats = [Seat(room, name) for name in LEARNERS]
    for seat in seats:
        await seat.__aenter__()
    try:
        await asyncio.gather(*(lesson(seat, place) for place, seat in enumerate(seats)))
        await seats[0].run(f"open({str(SHARED)!r}, 'w').write('left')")
        assert SHARED.exists() == (os.geteuid() == 0), "only who is a user of their own may"
        await runaway_cells(seats)
        await isolation(seats[1], seats[2])
        if os.geteuid() == 0:
            await server_end(seats[0])
    finally:
        for seat in seats:
            await seat.__aexit__()


async def runaway_cells(seats: list[Seat]) -> None:
    """One learner uses up memory, then processes; the others can work on, and so can this learner."""
    greedy, others = seats[0], seats[1:]
    task = asyncio.create_task(greedy.run(GREEDY, 300))
    seconds = await answer_times(others, task)
    assert "MemoryError" in task.result()
    assert max(seconds, default=0.0) < 90, seconds  # of a machine on which everything else runs, too
    assert await greedy.run("del kept; print(6 * 7)") == "42\n"  # the same kernel
    if os.geteuid() == 0:
        assert "BlockingIOError" in await greedy.run(CROWD, 300)
    for seat in others:
        assert await seat.run("print(model is not None)") == "True\n"  # their kernels are still the same


async def server_end(seat: Seat) -> None:
    """When a learner's server ends, so do all processes that its notebooks have started."""
    accounts = Accounts(seat.hub.folder / "hub" / "accounts.json")
    user = accounts.user(accounts.ensure(seat.name))
    before = processes_of(user)
    assert len(before) > 100
    await seat.stop_server()
    until = time.monotonic() + 120
    while (processes_of(user) or SHARED.exists()) and time.monotonic() < until:
        await asyncio.sleep(0.5)
    assert processes_of(user) == []
    assert not SHARED.exists()
    await seat._socket.close()
    await seat.start_server()
    await seat.open_kernel()
    assert await seat.run("import threading; threading.Thread().start(); print(6 * 7)") == "42\n"


# Subscribes to what another learner's kernel publishes: each cell and each output.
LISTEN = """
import zmq
listener = zmq.Context().socket(zmq.SUB)
listener.subscribe(b"")
listener.connect({address!r})
print(listener.recv_multipart() if listener.poll(8000) else "nothing")
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
    status, page = await curious.get(f"user/{other.name}/api/contents/labs")
    assert status in (403, 404), (status, page[:200])
    status, page = await curious.get("hub/admin")
    assert status == 403
    status, page = await curious.get("services/room/")
    assert status == 403


async def instructor_session(room: Hub) -> None:
    """The instructor's account can open the room and the hub's page, and none of the class's folders."""
    async with Seat(room, "instructor", password=INSTRUCTOR_PASSWORD, pin="") as seat:
        status, page = await seat.sign_in()
        assert status == 302, page
        assert (await seat.get("hub/admin"))[0] == 200
        status, page = await seat.get("services/room/")
        assert status == 200
        assert "The room" in page
        await seat.start_server()
        await seat.open_kernel()
        for name in ("hub/passwords.json", "source", "submitted", "nbgrader_config.py"):
            path = room.folder / name
            code = f"import os; p = {str(path)!r}; os.listdir(p) if os.path.isdir(p) else open(p)"
            assert "PermissionError" in await seat.run(code), name


async def feedback_page(room: Hub, name: str) -> str:
    async with Seat(room, name) as seat:
        assert (await seat.sign_in())[0] == 302
        await seat.start_server()
        page = await seat.ask("GET", "api/contents/feedback/grades.html?type=file&format=text")
        return str(page["content"])


def command(*arguments: str) -> str:
    """Run a command of the package beside the hub."""
    done = subprocess.run(
        [sys.executable, "-m", "onnxlab.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_class_works_is_graded_and_finds_its_feedback(room, tmp_path):
    finish(class_session(room))
    finish(instructor_session(room))
    course = open_class(room.folder)
    *worked, idle = LEARNERS
    assert "2 labs of 2 learners" in command("class", "take", str(room.folder))
    assert sorted(path.name for path in course.submitted.iterdir()) == worked
    out = tmp_path / "grades"
    command("grade", str(room.folder), "--out", str(out), "--time", "600")
    points = {exercise.id: exercise.points for exercise in lab_record(LAB).exercises}
    with (out / "grades.csv").open(newline="") as file:
        totals = {row["student"]: row["total"] for row in csv.DictReader(file)}
    assert totals.pop(idle) == "0"  # handed in nothing
    assert {name: float(total) for name, total in totals.items()} == {
        name: sum(points[exercise] for exercise in work_of(place)) for place, name in enumerate(worked)
    }
    command("class", "feedback", str(room.folder), str(out))
    page = finish(feedback_page(room, LEARNERS[1]))
    assert lab_record(LAB).exercises[0].id in page


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
            ("instructor", PIN, None),  # the room's password is not the instructor's
        ):
            async with Seat(room, name, pin) as seat:
                seat.password = password or seat.password
                replies.append(await seat.sign_in())
        return replies

    answers = finish(tries())
    assert [status for status, _ in answers] == [302, 403, 302, 302, 403, 400, 400, 403], answers
    assert "PIN" in answers[5][1]
    assert "begins with a letter" in answers[6][1]


def test_a_fresh_notebook_is_trusted_and_a_foreign_one_is_not(room):
    async def trusted() -> list[list[bool]]:
        async with Seat(room, "trusting") as seat:
            assert (await seat.sign_in())[0] == 302
            await seat.start_server()
            fresh = (await seat.ask("GET", "api/contents/notebooks/00_start_here.ipynb"))["content"]
            home = open_class(room.folder).learners / "trusting"
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


def test_the_hub_ends_and_leaves_nothing(room):
    running = command_lines(room.process.pid)
    assert len(running) > 4
    sockets = {Path(path) for path in re.findall(r"/[^\0]*?/onnxlab-class-\w+", "".join(running.values()))}
    assert len(sockets) == 1
    assert all(folder.exists() for folder in sockets)
    room.process.send_signal(signal.SIGTERM)
    assert room.process.wait(180) == 0, logs(room.folder)
    assert not [line for number, line in running.items() if Path(f"/proc/{number}").exists()]
    assert not [folder for folder in sockets if folder.exists()]
    assert not SHARED.exists()


def test_work_is_kept_for_the_next_start(room):
    learners = open_class(room.folder).learners
    mine = learners / LEARNERS[0] / "labs" / f"{LAB}.ipynb"
    before = mine.read_bytes()
    with hub(room.folder) as next_time:

        async def come_back() -> str:
            async with Seat(next_time, LEARNERS[0]) as seat:
                assert (await seat.sign_in())[0] == 302
                await seat.start_server()
                saved = await seat.ask("GET", f"api/contents/labs/{LAB}.ipynb")
                return json.dumps(saved["content"])

        finish(come_back())
        assert mine.read_bytes() == before
        assert mine.stat().st_mode & 0o077 == 0
        if os.geteuid() == 0:
            assert mine.stat().st_uid != 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root tries it as somebody else")
def test_as_an_ordinary_user_learners_are_apart_too(class_folder):
    async def small_session(room: Hub) -> None:
        seats = [Seat(room, name) for name in LEARNERS[:2]]
        for seat in seats:
            await seat.__aenter__()
            assert (await seat.sign_in())[0] == 302
        await asyncio.gather(*(seat.start_server() for seat in seats))
        await asyncio.gather(*(seat.open_kernel() for seat in seats))
        await isolation(*seats)
        daemon = int(await seats[0].run(DAEMON))
        assert Path(f"/proc/{daemon}").exists()
        await seats[0].stop_server()
        until = time.monotonic() + 60
        while Path(f"/proc/{daemon}").exists() and time.monotonic() < until:
            await asyncio.sleep(0.5)
        assert not Path(f"/proc/{daemon}").exists()
        for seat in seats:
            await seat.__aexit__()

    teacher = 61_234
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        folder = Path(shutil.copytree(class_folder, Path(name, "class")))
        for path in (folder.parent, folder, *folder.rglob("*")):
            os.chown(path, teacher, teacher)
        with hub(folder, user=teacher) as room:
            assert "Learners run as you" in room.folder.with_name("class.log").read_text()
            finish(small_session(room))
            running = below(room.process.pid)
        assert not [number for number in running if Path(f"/proc/{number}").exists()]
