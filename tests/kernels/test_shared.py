"""One warm process of root's for a class: each learner's kernels are their own user's."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from class_server import LEARNERS, MOST
from kernel_runs import WITHIN, wait_until

HERE = Path(__file__).parent
ROOT = sys.platform == "linux" and os.geteuid() == 0
pytestmark = [
    pytest.mark.skipif(not ROOT, reason="only root can serve a class, on Linux"),
    pytest.mark.slow,
]

Serve = Callable[[str], tuple[str, psutil.Process]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a shared process that confines in a given way; return its address and it."""
    with tempfile.TemporaryDirectory(prefix="k-") as folder:
        Path(folder).chmod(0o711)
        processes: list[subprocess.Popen[bytes]] = []

        def one(way: str) -> tuple[str, psutil.Process]:
            address = f"{folder}/{way}"
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(address)
                Path(address).chmod(0o666)
                listener.listen(64)
                command = [sys.executable, str(HERE / "class_server.py"), str(listener.fileno()), way]
                process = subprocess.Popen(
                    command, pass_fds=[listener.fileno()], cwd="/", env=base(), start_new_session=True
                )
            processes.append(process)
            return address, psutil.Process(process.pid)

        yield one
        for process in processes:
            process.terminate()
            process.wait(30)


def base() -> dict[str, str]:
    names = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONHASHSEED")
    found = {name: os.environ[name] for name in names if name in os.environ}
    return found | {"PYTHONPATH": str(HERE), "ORT_DISABLE_TELEMETRY": "1"}


def as_learner(user: int, address: str, code: str, *arguments: str) -> str:
    """Run Python as a learner whose Jupyter knows the shared process; return what it prints."""
    with tempfile.TemporaryDirectory(prefix="k-", ignore_cleanup_errors=True) as home:
        os.chown(home, user, user)
        variables = base() | {"HOME": home, "TMPDIR": home, "USER": f"u{user}", "JUPYTER_RUNTIME_DIR": home}
        variables |= {"ONNXLAB_KERNELS_SOCKET": address, "WHO": f"learner {user}", "IPYTHONDIR": home}
        rights = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *rights]
        done = subprocess.run(
            [*drop, sys.executable, "-c", code, *arguments],
            env=variables, cwd=home, capture_output=True, text=True, timeout=3 * WITHIN,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


BEGIN = """
import json, logging, os, sys
from kernel_runs import started
why = []
class Keep(logging.Handler):
    def emit(self, record): why.append(record.getMessage())
logging.getLogger("traitlets").addHandler(Keep())
"""
TELL = """
kernels = [started(cwd=os.getcwd()) for _ in range(int(sys.argv[1]))]
for kernel in kernels:
    kind = type(kernel.manager.provisioner.process).__name__
    facts = kernel.run('''
import json, os, sys, tempfile
files = [f"/proc/self/fd/{n}" for n in range(256)]
print(json.dumps({"users": os.getresuid(), "groups": [*os.getresgid(), *os.getgroups()],
    "parent": os.getppid(), "torch": "torch" in sys.modules, "home": os.environ["HOME"],
    "folder": os.getcwd(), "umask": os.umask(0), "temporary": tempfile.gettempdir(),
    "settled": os.environ.get("SETTLED_FOR"),
    "files": sorted(os.readlink(file) for file in files if os.path.lexists(file))}))
''')
    print(kind, facts)
"""
END = """
for kernel in kernels:
    kernel.client.stop_channels(); kernel.manager.shutdown_kernel(now=True)
print(json.dumps([line for line in why if "forked" in line]))
"""


def told(printed: str) -> list[tuple[str, dict]]:
    lines = [line.partition(" ") for line in printed.splitlines()]
    return [(kind, json.loads(facts)) for kind, _, facts in lines if kind in ("ForkedProcess", "Popen")]


def test_each_learner_has_kernels_of_their_own_user(serve: Serve) -> None:
    address, shared = serve("confine")
    for user in LEARNERS:
        printed = as_learner(user, address, BEGIN + TELL + END, "1")
        [(kind, facts)] = told(printed)
        assert kind == "ForkedProcess", printed
        assert facts["users"] == [user] * 3
        assert set(facts["groups"]) == {user}
        assert facts["parent"] == shared.pid
        assert facts["torch"]
        assert facts["home"] == facts["folder"] == facts["temporary"]
        assert facts["umask"] == 0o077
        assert facts["settled"] == f"learner {user}"
        assert not any(str(Path(address).parent) in file for file in facts["files"])
    wait_until(lambda: not shared.children(), "the kernels are gone")


def test_a_learner_does_with_a_kernel_what_one_does(serve: Serve) -> None:
    address, _ = serve("confine")
    code = """
kernels = [kernel] = [started()]
assert type(kernel.manager.provisioner.process).__name__ == "ForkedProcess", why
kernel.client.execute("import time; time.sleep(1000)")
import time; time.sleep(2)
kernel.manager.interrupt_kernel()
assert kernel.client.get_shell_msg(timeout=100)["content"]["ename"] == "KeyboardInterrupt"
forked = kernel.manager.provisioner.process
kernel.manager.restart_kernel(now=True); kernel.client.wait_for_ready(timeout=100)
assert forked.returncode == -9
forked = kernel.manager.provisioner.process
kernel.client.execute("import os; os._exit(5)")
assert forked.wait(100) == 5
print("well")
"""
    assert "well" in as_learner(LEARNERS[0], address, BEGIN + code + END)


def test_somebody_else_and_more_than_allowed_get_ordinary_kernels(serve: Serve) -> None:
    address, _ = serve("confine")
    printed = as_learner(LEARNERS[0], address, BEGIN + TELL + END, str(MOST + 1))
    assert [kind for kind, _ in told(printed)] == ["ForkedProcess"] * MOST + ["Popen"]
    assert f"has {MOST} kernels" in json.loads(printed.splitlines()[-1])[0]
    printed = as_learner(310_003, address, BEGIN + TELL + END, "1")
    assert [kind for kind, _ in told(printed)] == ["Popen"]
    assert "user 310003 has no kernels here" in json.loads(printed.splitlines()[-1])[0]


@pytest.mark.parametrize("way", ["fail", "forget", "forget_for_good", "swap"])
def test_a_fork_that_is_not_confined_never_begins(serve: Serve, way: str) -> None:
    address, shared = serve(way)
    printed = as_learner(LEARNERS[0], address, BEGIN + TELL + END, "1")
    [(kind, facts)] = told(printed)
    assert kind == "Popen"
    assert facts["users"] == [LEARNERS[0]] * 3
    [reason] = json.loads(printed.splitlines()[-1])
    assert "could not be confined" in reason
    assert "secret detail" not in reason
    wait_until(lambda: not shared.children(), "no fork is left")


def test_what_is_sent_is_never_read_as_root(serve: Serve) -> None:
    """Garbage, silence, a flood of connections: whoever reads is the learner's, and the next is served."""
    address, shared = serve("confine")
    code = """
import socket, time
other = {"arguments": [], "folder": "/", "variables": {}, "user": 0}
packets = [b"", b"{", b"[" * 100000, b"x" * 150000, json.dumps(other).encode()]
def connection():
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); found.settimeout(60)
    found.connect(os.environ["ONNXLAB_KERNELS_SOCKET"]); return found
for packet in packets:
    while True:
        one = connection()
        answer = json.loads(one.recv(10000))
        if "process" in answer: break
        one.close(); time.sleep(.2)
    users = open(f"/proc/{answer['process']}/status").read().split("Uid:")[1].split()[:4]
    if packet: one.send(packet)
    else: one.shutdown(socket.SHUT_WR)
    try: print(users, json.loads(one.recv(10000)))
    except (OSError, ValueError) as error: print(users, {"refused": str(error)})
    one.close()
crowd = [connection() for _ in range(20)]  # more than may live; they say nothing
print(sum("refused" in json.loads(one.recv(10000)) for one in crowd))
for one in crowd: one.close()
"""
    lines = as_learner(LEARNERS[0], address, BEGIN + code).splitlines()
    assert all("refused" in line for line in lines[:-1]), lines
    assert int(lines[-1]) >= 20 - MOST
    printed = as_learner(LEARNERS[1], address, BEGIN + TELL + END, "1")
    assert [kind for kind, _ in told(printed)] == ["ForkedProcess"]
    wait_until(lambda: not shared.children(), "silent forks give up")
    assert shared.is_running()


def test_kernels_end_with_the_learners_server(serve: Serve) -> None:
    address, shared = serve("confine")
    as_learner(LEARNERS[0], address, BEGIN + "started(); os._exit(0)")
    wait_until(lambda: not shared.children(), "the kernel ends")
    time.sleep(0.1)
    assert shared.is_running()
    shared.send_signal(signal.SIGTERM)
