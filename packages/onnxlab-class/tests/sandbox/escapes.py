# ruff: noqa: PTH102, PTH109, PTH208, SIM115 - what hostile code does is written as it would be
"""A submission that tries to get out of the sandbox, and the grader that it attacks.

test_sandbox.py runs this as a program. Everything is imported at the top: an ordinary user may have no access
to root's Python later.
"""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from onnxlab.files import remove_untrusted
from onnxlab_class import sandbox
from onnxlab_class.sandbox import landlock
from onnxlab_class.sandbox.entry import Level, enter, probe
from onnxlab_class.sandbox.libc import libc, prctl, set_dumpable
from onnxlab_class.sandbox.watcher import Ending, Limits, descendants, disk, end_all, why_it_failed

READABLE = [Path(place) for place in ("/usr", "/lib", "/lib64", "/bin")]
MB = 2**20
STACKS: list[mmap.mmap] = []  # of threads that run until the end
"".encode("idna")  # loads the codec that sockets use for addresses


class Grader:
    """The grader's files, sockets and process, and the folder of the submission."""

    def __init__(self, user: int | None) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="onnxlab-escape-"))
        self.base.chmod(0o755)
        self.folder = self.base / "work"
        self.folder.mkdir(mode=0o700)
        self.secret = self.base / "secret" / "seed"
        self.secret.parent.mkdir(mode=0o700)
        self.secret.write_text("seed 7")
        self.public = self.base / "public"
        self.public.write_text("public")
        self.public.chmod(0o644)
        self.judged = self.base / "judge" / "findings"
        self.judged.parent.mkdir(mode=0o700)
        self.judged.write_text("findings")
        self.in_tmp = Path(tempfile.gettempdir()) / f"{self.base.name}.written"
        self.shared = Path("/dev/shm") / self.base.name
        if user:
            os.chown(self.folder, user, user)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.base / "socket"))
        self.unix.listen()
        self.datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagram.bind(str(self.base / "datagram"))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.base.name)
        self.abstract.listen()
        for place in ("socket", "datagram"):
            (self.base / place).chmod(0o777)
        self.handle = _handle_of(self.secret)
        self.queue = libc.msgget(0, 0o1666)
        self.signalled = mmap.mmap(-1, 3)  # a signal came; there is a new folder; the submission has begun
        requests, self.requests = os.pipe()
        self.process = os.fork()
        if not self.process:
            set_dumpable(False)  # as the grader's long-lived processes do
            signal.signal(signal.SIGUSR1, lambda *_: self.signalled.write(b"x"))
            while True:
                os.read(requests, 1)
                tempfile.mkdtemp(prefix=f"{self.base.name}-neighbour")
                self.signalled[1] = 1
        self.watcher = 0

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        libc.msgctl(self.queue, 0, None)
        for endpoint in (self.tcp, self.udp, self.unix, self.datagram, self.abstract):
            endpoint.close()
        remove_untrusted(self.base)
        for neighbour in self.base.parent.glob(f"{self.base.name}-neighbour*"):
            neighbour.rmdir()

    def ask_for_a_folder(self) -> None:
        """Have the grader make a folder beside its own, and wait until it has."""
        os.write(self.requests, b"x")
        until = time.monotonic() + 5
        while not self.signalled[1] and time.monotonic() < until:
            time.sleep(0.01)


def _handle_of(path: Path) -> bytes:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    libc.name_to_handle_at(-100, os.fsencode(path), handle, ctypes.byref(mount), 0)
    return handle.raw


# What a submission tries. Each returns whether it worked; an OSError says that it did not.


def read_a_file_of_the_grader(grader: Grader) -> bool:
    return grader.secret.read_text() == "seed 7"


def read_a_file_that_all_may_read(grader: Grader) -> bool:
    return grader.public.read_text() == "public"


def write_a_file_of_the_grader(grader: Grader) -> bool:
    with grader.secret.open("a") as file:
        file.write("")
    return True


def write_in_tmp(grader: Grader) -> bool:
    grader.in_tmp.write_text("mine")
    grader.in_tmp.unlink()
    return True


def empty_a_file_of_the_judge(grader: Grader) -> bool:
    """Without opening it to be written, as Landlock allows before Linux 6.2."""
    with contextlib.suppress(OSError):
        os.truncate(grader.judged, 0)
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_WRONLY):
        with contextlib.suppress(OSError):
            os.close(os.open(grader.judged, flags | os.O_TRUNC))
    return grader.judged.stat().st_size == 0


def change_the_mode_of_a_file(grader: Grader) -> bool:
    grader.public.chmod(0o604)
    return stat.S_IMODE(grader.public.stat().st_mode) == 0o604


def change_the_attributes_of_a_file(grader: Grader) -> bool:
    """With the newer calls as well, which no Landlock controls: setxattrat, file_setattr, an ioctl."""
    path = os.fsencode(grader.public)
    access_list = struct.pack("<I" + 3 * "HHi", 2, 1, 6, -1, 4, 6, -1, 32, 6, -1)
    for name, value in ((b"user.mine", b"x"), (b"system.posix_acl_access", access_list)):
        data = ctypes.create_string_buffer(value)
        arguments = struct.pack("QII", ctypes.addressof(data), len(value), 0)
        if _call(463, -100, path, 0, name, arguments, ctypes.c_size_t(len(arguments))) == 0:
            return True
        if libc.setxattr(path, name, value, ctypes.c_size_t(len(value)), 0) == 0:
            return True
    if _call(469, -100, path, struct.pack("QIIIII4x", *[0] * 6), ctypes.c_size_t(32), 0) == 0:
        return True
    with grader.public.open() as file:
        no_dump = struct.pack("l", 0x40)
        return bool(fcntl.ioctl(file, 0x40086602, no_dump) is not None)  # FS_IOC_SETFLAGS


def make_a_rule_of_landlock(_: Grader) -> bool:
    """A rule keeps its file, so a deleted file that nothing has open takes room."""
    return _call(444, struct.pack("Q", 1), ctypes.c_size_t(8), 0) >= 0


def keep_descriptors_of_one_thread(_: Grader) -> bool:
    """What /proc/PID/fd does not show: a thread with a table of its own."""
    results = []

    def try_it() -> None:
        results.append(libc.close_range(1 << 20, 1 << 20, 2))  # CLOSE_RANGE_UNSHARE
        results.append(libc.unshare(0x400))  # CLONE_FILES

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    stack = mmap.mmap(-1, MB)
    top = ctypes.addressof(ctypes.c_char.from_buffer(stack)) + MB - 64
    flags = 0x100 | 0x200 | 0x800 | 0x10000  # CLONE_VM, _FS, _SIGHAND, _THREAD, without CLONE_FILES
    results.append(libc.clone(libc.pause, ctypes.c_void_p(top), flags, None))
    STACKS.append(stack)
    return max(results) >= 0


def keep_locks_on_files(_: Grader) -> bool:
    with Path("locked").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        if not (child := os.fork()):
            with contextlib.suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os._exit(0)
            os._exit(1)
        return os.waitpid(child, 0)[1] != 0


def list_the_machines_mounts(_: Grader) -> bool:
    mounts = (ctypes.c_uint64 * 8)()
    request = struct.pack("IIQQ", 24, 0, 2**64 - 1, 0)
    return _call(458, request, mounts, ctypes.c_size_t(8), 0) > 0


def see_who_runs(grader: Grader) -> bool:
    return Path(f"/proc/{grader.process}").exists()


def use_queues_of_messages_system_v(grader: Grader) -> bool:
    """Those that others have made, whose numbers can be guessed."""
    return bool(libc.msgctl(grader.queue, 2, ctypes.create_string_buffer(256)) == 0)  # IPC_STAT


def _call(number: int, *arguments: Any) -> int:
    return int(libc.syscall(ctypes.c_long(number), *arguments))


def connect_by_tcp(grader: Grader) -> bool:
    socket.create_connection(grader.tcp.getsockname(), timeout=2).close()
    return True


def send_by_udp(grader: Grader) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", grader.udp.getsockname())
    return True


def connect_to_a_unix_socket(grader: Grader) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(grader.base / "socket"))
    return True


def connect_to_an_abstract_socket(grader: Grader) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + grader.base.name)
    return True


def send_to_the_grader_by_a_datagram(grader: Grader) -> bool:
    sender, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, other:
        sender.sendto(b"x", str(grader.base / "datagram"))
    return True


def see_names_appear_in_tmp(grader: Grader) -> bool:
    """Names of others' folders, by inotify, which needs no right to list a folder from Landlock."""
    events = libc.inotify_init1(os.O_NONBLOCK)
    if events < 0 or libc.inotify_add_watch(events, os.fsencode(grader.base.parent), 0x100) < 0:
        return False
    grader.ask_for_a_folder()
    return b"neighbour" in os.read(events, 1 << 16)


def list_tmp(grader: Grader) -> bool:
    return grader.base.name in os.listdir(grader.base.parent)


def list_the_graders_folder(grader: Grader) -> bool:
    return "judge" in os.listdir(grader.base)


def enlarge_the_buffer_of_a_socket(_: Grader) -> bool:
    one, other = socket.socketpair()
    with one, other:
        before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * before)
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before


def enlarge_a_pipe(_: Grader) -> bool:
    reader, writer = os.pipe()
    try:
        return fcntl.fcntl(writer, 1031, MB) == MB  # F_SETPIPE_SZ
    finally:
        os.close(reader)
        os.close(writer)


def keep_pages_in_a_pipe(_: Grader) -> bool:
    reader, writer = os.pipe()
    page = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    vector = struct.pack("QQ", address, 4096)
    try:
        return bool(libc.vmsplice(writer, vector, ctypes.c_size_t(1), 0) > 0)
    finally:
        os.close(reader)
        os.close(writer)


def reserve_space_on_the_disk(_: Grader) -> bool:
    with tempfile.TemporaryFile() as file:
        return bool(libc.fallocate(file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(MB)) == 0)


def send_a_descriptor_away(_: Grader) -> bool:
    one, other = socket.socketpair()
    with one, other:
        return bool(socket.send_fds(one, [b"x"], [0]))


def signal_the_grader(grader: Grader) -> bool:
    os.kill(grader.process, 0)
    return True


def signal_the_watcher(grader: Grader) -> bool:
    os.kill(grader.watcher, 0)
    return True


def have_the_kernel_signal_the_grader(grader: Grader) -> bool:
    """Make it the owner of a pipe, which gets a signal when there is something to read."""
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(reader, fcntl.F_SETOWN, grader.process)
        fcntl.fcntl(reader, 10, signal.SIGUSR1)  # F_SETSIG
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
        os.write(writer, b"x")
        time.sleep(0.2)
    finally:
        os.close(reader)
        os.close(writer)
    return grader.signalled[0] != 0


def trace_the_grader_or_the_watcher(grader: Grader) -> bool:
    seize, detach, traced = 0x4206, 17, False
    for other in (grader.process, grader.watcher):
        if libc.ptrace(seize, other, None, None) == 0:
            libc.ptrace(detach, other, None, None)
            traced = True
    return traced


def limit_the_grader(grader: Grader) -> bool:
    resource.prlimit(grader.process, resource.RLIMIT_CORE, (0, 0))
    return True


def see_the_grader(grader: Grader) -> bool:
    return str(grader.process) in os.listdir("/proc")


def read_the_graders_variables(grader: Grader) -> bool:
    return bool(Path(f"/proc/{grader.process}/environ").read_bytes())


def write_the_memory_of_the_grader_or_the_watcher(grader: Grader) -> bool:
    opened = 0
    for other in (grader.process, grader.watcher):
        with contextlib.suppress(OSError):
            os.close(os.open(f"/proc/{other}/mem", os.O_RDWR))
            opened += 1
    return opened > 0


def use_shared_memory_dev_shm(grader: Grader) -> bool:
    grader.shared.write_text("mine")
    grader.shared.unlink()
    return True


def use_shared_memory_system_v(_: Grader) -> bool:
    segment = libc.shmget(0, ctypes.c_size_t(4096), 0o1600)
    if segment >= 0:
        libc.shmctl(segment, 0, None)
    return bool(segment >= 0)


def use_memory_without_a_process(_: Grader) -> bool:
    os.close(os.memfd_create("mine"))
    return True


def make_a_namespace(_: Grader) -> bool:
    return bool(libc.unshare(0x10000000) == 0)


def open_a_file_by_its_handle(grader: Grader) -> bool:
    mount = os.open(".", os.O_RDONLY)
    return bool(libc.open_by_handle_at(mount, grader.handle, os.O_RDONLY) >= 0)


ATTEMPTS = {
    name.replace("_", " "): value
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__
    and getattr(value, "__annotations__", {}).get("return") is bool
    and name[0] != "_"
}


def try_everything(grader: Grader) -> None:
    worked = {}
    for name, attempt in ATTEMPTS.items():
        try:
            worked[name] = attempt(grader)
        except OSError:
            worked[name] = False
    Path("answer.json").write_text(json.dumps(worked))


# What a submission does to use more than it may, or to keep running. Each writes its answer to answer.json.


def answer(value: object) -> None:
    Path("answer.json").write_text(json.dumps(value))


def loop_for_ever(_: Grader) -> None:
    while True:
        pass


def block_all_signals(_: Grader) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def stop_itself(_: Grader) -> None:
    with contextlib.suppress(OSError):
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)


def fill_memory(_: Grader) -> None:
    try:
        blocks = [bytearray(32 * MB) for _ in range(40)]
        answer(len(blocks))
    except MemoryError:
        answer("MemoryError")


def fill_memory_with_shared_pages(_: Grader) -> None:
    blocks = []
    for _ in range(8):
        blocks.append(mmap.mmap(-1, 64 * MB))
        blocks[-1].write(bytes(64 * MB))
    time.sleep(60)


def fill_memory_with_processes(_: Grader) -> None:
    """Children of another thread than the first, each in a session of its own."""

    def start() -> None:
        for _ in range(6):
            if not os.fork():
                os.setsid()
                block = bytearray(100 * MB)
                time.sleep(60)
                os._exit(len(block) % 2)
        time.sleep(60)

    threading.Thread(target=start).start()
    time.sleep(60)


def fill_disk_without_first_threads(_: Grader) -> None:
    """Deleted files of a process whose first thread has ended: a zombie in /proc, without descriptors."""

    def fill() -> None:
        files = []
        for number in range(40):
            files.append(Path(f"file{number}").open("wb"))
            files[-1].write(bytes(MB))
            files[-1].flush()
            Path(f"file{number}").unlink()
        time.sleep(60)

    if not os.fork():
        threading.Thread(target=fill).start()
        libc.syscall(ctypes.c_long({"x86_64": 60}.get(os.uname().machine, 93)), 0)  # exit, not exit_group
    time.sleep(60)


def fill_disk_in_a_program_that_nobody_may_read(_: Grader) -> None:
    """Its descriptors cannot be read by the same user either."""
    with Path(shutil.which("sleep") or "").open("rb") as program:
        code = program.read()
    copy = os.open("unreadable", os.O_CREAT | os.O_WRONLY, 0o100)
    os.write(copy, code)
    os.close(copy)
    if not os.fork():
        for number in range(40):
            file = os.open(f"file{number}", os.O_CREAT | os.O_RDWR)
            os.set_inheritable(file, True)
            os.write(file, bytes(MB))
            Path(f"file{number}").unlink()
        os.execv("unreadable", ["sleep", "60"])
    time.sleep(60)


def fill_memory_with_sockets(_: Grader) -> None:
    """What is written into a socket and not read belongs to no process."""
    for _ in range(24):
        if not os.fork():
            kept = []
            with contextlib.suppress(OSError):
                for _ in range(120):
                    kept.append(socket.socketpair())
                    for end in kept[-1]:
                        end.setblocking(False)
                        with contextlib.suppress(BlockingIOError):
                            while True:
                                end.send(bytes(1 << 15))
            time.sleep(60)
    time.sleep(60)


def reserve_disk(_: Grader) -> None:
    """Allocate files at once, without writing them, and give them back before anybody looks."""
    for _ in range(20):
        files = []
        with contextlib.suppress(OSError):
            for _ in range(40):
                files.append(os.open("file", os.O_CREAT | os.O_RDWR))
                Path("file").unlink()
                if libc.fallocate(files[-1], 0, ctypes.c_long(0), ctypes.c_long(60 * MB)) < 0:
                    break
        for file in files:
            os.close(file)
    answer("done")


def leave_sparse_files(_: Grader) -> None:
    """They take no room until somebody copies them."""
    for folder in range(4):
        Path(f"exercise{folder}").mkdir()
        for number in range(24):
            with Path(f"exercise{folder}/{number}.npy").open("wb") as file:
                file.truncate(16 * MB)


def write_a_large_file(_: Grader) -> None:
    try:
        with Path("large").open("wb") as file:
            for _ in range(20):
                file.write(bytes(MB))
        answer("written")
    except OSError as error:
        answer(error.strerror)


def fill_disk(_: Grader) -> None:
    for number in range(40):
        Path(f"file{number}").write_bytes(os.urandom(MB))
    time.sleep(60)


def fill_disk_without_names(_: Grader) -> None:
    files = []
    for number in range(40):
        files.append(Path(f"file{number}").open("wb"))
        files[-1].write(bytes(MB))
        files[-1].flush()
        Path(f"file{number}").unlink()
    time.sleep(60)


def fill_disk_with_maps(_: Grader) -> None:
    """Of each deleted file a page stays mapped; Python's own `mmap` would keep a descriptor, too."""
    for number in range(8):
        with Path(f"file{number}").open("w+b") as file:
            file.write(bytes(6 * MB))
            file.flush()
            libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        Path(f"file{number}").unlink()
    time.sleep(60)


def fill_disk_with_programs_that_run(_: Grader) -> None:
    for number in range(8):
        program = os.open("program", os.O_WRONLY | os.O_CREAT, 0o700)
        os.write(program, Path("/usr/bin/sleep").read_bytes() + bytes(6 * MB))
        os.close(program)
        os.posix_spawn("program", [f"sleep{number}", "60"], {})
        Path("program").unlink()
    time.sleep(60)


def hide_files_in_a_closed_folder(_: Grader) -> None:
    Path("closed").mkdir()
    os.chdir("closed")
    for number in range(40):
        Path(f"file{number}").write_bytes(bytes(MB))
    os.mkdir("../shut", 0)
    time.sleep(60)


def fork_for_ever(_: Grader) -> None:
    while True:
        with contextlib.suppress(OSError):
            if not os.fork():
                os.setsid()


def slow_others_down(_: Grader) -> None:
    children = []
    for _ in range(15):
        children.append(os.fork())
        if not children[-1]:
            while True:
                pass
    until = time.monotonic() + 45
    while time.monotonic() < until:  # the watcher checks four times a second
        priorities = [os.getpriority(os.PRIO_PROCESS, child) for child in children]
        if min(priorities) == 19:
            break
        time.sleep(0.1)
    answer(priorities)


def count_forks(_: Grader) -> None:
    count = 0
    try:
        for _ in range(200):
            if not os.fork():
                time.sleep(60)
                os._exit(0)
            count += 1
    except OSError:
        pass
    answer(count)


def stay(_: Grader) -> None:
    """Fork twice with a new session, as a daemon does, and ignore every signal that can be ignored."""
    reader, writer = os.pipe()
    if not os.fork():
        os.setsid()
        if not os.fork():
            beat = Path("beat").open("w")
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_IGN)
            os.write(writer, b"x")
            while True:
                beat.write(str(time.time()))
                beat.flush()
                time.sleep(0.01)
        os._exit(0)
    os.read(reader, 1)


def stay_and_wait(grader: Grader) -> None:
    stay(grader)
    grader.signalled[2] = 1
    time.sleep(100)


def compute(grader: Grader) -> None:
    """Honest work, which some machines take long for."""
    grader.signalled[2] = 1
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    answer("ready")


def sleep_long(grader: Grader) -> None:
    grader.signalled[2] = 1
    time.sleep(100)


def kill_everybody(_: Grader) -> None:
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)


def kill_itself(_: Grader) -> None:
    """By SIGKILL and by what stops a process, in every way there is; nobody continues it."""
    _give_its_group_a_parent()
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
        _signal_itself(number)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(0, resource.RLIMIT_CPU, (0, 0))
    limit = struct.pack("QQ", 0, 0)
    libc.syscall(ctypes.c_long({"x86_64": 302}.get(os.uname().machine, 261)), 0, 0, limit, None)
    libc.syscall(ctypes.c_long({"x86_64": 160}.get(os.uname().machine, 164)), 0, limit)
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
    answer("alive")


def _give_its_group_a_parent() -> None:
    """The kernel lets a terminal's signals stop no orphaned group: it needs a parent in another group."""
    group = os.getpgrp()
    if not os.fork():
        os.setpgid(0, 0)
        if not os.fork():
            os.setpgid(0, group)
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)


def _signal_itself(number: int) -> None:
    process, thread = os.getpid(), threading.get_native_id()
    for send in (
        lambda: os.kill(process, number),
        lambda: os.kill(0, number),
        lambda: libc.tkill(thread, number),
        lambda: libc.tgkill(process, thread, number),
        lambda: signal.pthread_kill(threading.get_ident(), number),
        lambda: signal.pidfd_send_signal(os.pidfd_open(process), number),
        lambda: libc.sigqueue(process, number, None),
        lambda: _in_a_child(lambda: os.kill(process, number)),
        lambda: _signal_by_a_timer(number),
        lambda: _signal_by_a_pipe(number),
        lambda: _signal_by_a_childs_end(number),
    ):
        with contextlib.suppress(OSError, AttributeError):
            send()


def _in_a_child(do: Any) -> None:
    child = os.fork()
    if not child:
        with contextlib.suppress(OSError):
            do()
        os._exit(0)
    os.waitpid(child, 0)


def _signal_by_a_timer(number: int) -> None:
    timer = ctypes.c_void_p()
    event = ctypes.create_string_buffer(struct.pack("qii", 0, number, 0), 64)  # struct sigevent, SIGEV_SIGNAL
    if libc.timer_create(1, event, ctypes.byref(timer)) == 0:
        libc.timer_settime(timer, 0, struct.pack("qqqq", 0, 0, 0, 1), None)
        time.sleep(0.1)


def _signal_by_a_pipe(number: int) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(reader, 10, number)  # F_SETSIG
    fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writer, b"x")
    time.sleep(0.1)


def _signal_by_a_childs_end(number: int) -> None:
    clone = {"x86_64": 56}.get(os.uname().machine, 220)
    if libc.syscall(ctypes.c_long(clone), ctypes.c_ulong(number), None, None, None, None) == 0:
        os._exit(0)
    time.sleep(0.1)


def raise_its_limits(_: Grader) -> None:
    for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (OSError, ValueError):
            continue
        answer("raised")
        return
    answer("kept")


def crash(_: Grader) -> None:
    ctypes.string_at(0)


def say_code(grader: Grader) -> None:
    os._exit(grader.code)


def use_what_it_may(_: Grader) -> None:
    """What honest code does: write, read, start a program, compute."""
    Path("out").mkdir()
    Path("out/model").write_bytes(bytes(MB))
    shutil.copy("out/model", "copy")
    Path("touched").touch()
    with tempfile.NamedTemporaryFile() as file:
        shutil.copy(file.name, "touched")
    sender, receiver = socket.socketpair()
    sender.send(b"x")
    with Path("/dev/null").open("w") as null, Path("/dev/urandom").open("rb") as random:
        null.write(str(random.read(1)))
    process = os.fork()
    if not process:
        os.execv("/bin/true", ["true"])
    _, status = os.waitpid(process, 0)
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()
    answer([os.getcwd() == os.path.realpath("."), status, receiver.recv(1) == b"x", len(os.listdir("."))])


def read_what_it_may(grader: Grader) -> None:
    answer("found" if os.listdir(grader.readable)[0] == "found.py" else "not found")


def main() -> None:
    request = json.loads(sys.argv[1])
    if request.get("drop"):
        os.setgroups([])
        os.setgid(request["drop"])
        os.setuid(request["drop"])
    if request["do"] == "probe":
        print(json.dumps({level: probe(level) for level in Level}))
        return
    prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans of the submission become its children
    user = request.get("user")
    grader = Grader(user)
    grader.code = request.get("code", 0)
    grader.readable = request.get("readable", [""])[0]
    if request.get("strange"):
        os.chown(grader.folder, 1, 1)
    sandbox.watcher.PATIENCE = request.get("patience", 100)  # the machine may be busy with other tests
    limits = Limits(**{"wall": 20.0, **request.get("limits", {})})
    readable = [*READABLE, *map(Path, request.get("readable", []))]
    parent = os.fork() if request.get("orphaned") else 0
    watcher, groups = 0, ""
    if not parent:
        watcher = os.fork()
        if not watcher:
            if "landlock" in request:
                landlock.abi = lambda: request["landlock"]
            grader.watcher = os.getpid()
            if request.get("unconfined"):
                os.chdir(grader.folder)
                if user:
                    os.setgroups([])
                    os.setgid(user)
                    os.setuid(user)
            else:
                enter(grader.folder, readable, Level(request["level"]), limits, user)
            with contextlib.suppress(KeyboardInterrupt):
                globals()[request["do"]](grader)
            os._exit(0)
        if request.get("orphaned"):
            _wait_until_it_begins(grader)
            os._exit(0)
    else:
        os.waitpid(parent, 0)
    started = time.monotonic()
    usage = Usage(grader.base)
    if request.get("ask"):
        _wait_until_it_begins(grader)
        os.kill(watcher, signal.SIGTERM)
    if request.get("disturb"):
        _wait_until_it_begins(grader)
        notebook = next(process.id for process in descendants(watcher))
        groups = Path(f"/proc/{notebook}/cgroup").read_text()
        DISTURBANCES[request["disturb"]](watcher, notebook)
    code = _code(watcher or -1, grader)
    left = [
        process.id
        for process in descendants(os.getpid())
        if process.id != grader.process and not _is_over(process.id)
    ]
    try:
        reply = json.loads((grader.folder / "answer.json").read_text())
    except (OSError, ValueError):
        reply = None
    beat = _beat(grader)
    report = {
        "code": code,
        "ending": Ending.of(code).name,
        "answer": reply,
        "seconds": time.monotonic() - started,
        "left": len(left),
        "beats": beat,
        "reason": why_it_failed(grader.folder),
        "victim": _alive(grader.process),
        "mode": stat.S_IMODE(grader.public.stat().st_mode),
        "secret": grader.secret.read_text(),
        "heard": bool(
            select.select([grader.tcp, grader.udp, grader.unix, grader.datagram, grader.abstract], [], [], 0)[
                0
            ]
        ),
        "written": grader.in_tmp.exists() or grader.shared.exists(),
        "disk": disk(grader.folder, 2**40),
        "most_disk": usage.stop(),
        "in_a_group": f"onnxlab-{watcher}\n" in groups,
    }
    grader.close()
    report["removed"] = not grader.base.exists()
    end_all(os.getpid())
    print(json.dumps(report))


# What a machine, or somebody on it, does to an honest submission.


def _kill_the_notebook(_: int, notebook: int) -> None:
    os.kill(notebook, signal.SIGKILL)


def _kill_the_watcher(watcher: int, _: int) -> None:
    os.kill(watcher, signal.SIGKILL)


def _stand_still(watcher: int, notebook: int) -> None:
    for process in (watcher, notebook):
        os.kill(process, signal.SIGSTOP)
    time.sleep(3)
    for process in (notebook, watcher):
        os.kill(process, signal.SIGCONT)


def _give_little(_: int, notebook: int) -> None:
    """Let it run for some hundredths of each second."""
    with contextlib.suppress(ProcessLookupError):
        while not _is_zombie(notebook):
            os.kill(notebook, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(notebook, signal.SIGCONT)
            time.sleep(0.02)


def _give_nothing(_: int, notebook: int) -> None:
    os.kill(notebook, signal.SIGSTOP)


DISTURBANCES = {
    "kill the notebook": _kill_the_notebook,
    "kill the watcher": _kill_the_watcher,
    "stand still": _stand_still,
    "give little": _give_little,
    "give nothing": _give_nothing,
}


class Usage:
    """The most of this machine's disk that is used during a block, in MB."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most, self.ended = folder, 0, threading.Event()
        self.before = self.free()
        self.thread = threading.Thread(target=self.measure)
        self.thread.start()

    def free(self) -> int:
        place = os.statvfs(self.folder)
        return place.f_bfree * place.f_frsize // MB

    def measure(self) -> None:
        while not self.ended.wait(0.005):
            self.most = max(self.most, self.before - self.free())

    def stop(self) -> int:
        self.ended.set()
        self.thread.join()
        return self.most


def _code(watcher: int, grader: Grader) -> int:
    """Return the watcher's exit code; if its parent has ended, that of the last process but the grader's."""
    code = -999
    until = time.monotonic() + 150
    while time.monotonic() < until:
        if watcher == -1 and [process.id for process in descendants(os.getpid())] == [grader.process]:
            return code
        ended, status = os.waitpid(watcher, 0 if watcher > 0 else os.WNOHANG)
        if ended and ended != grader.process:
            code = os.waitstatus_to_exitcode(status)
            if watcher > 0:
                return code
        time.sleep(0.01)
    return code


def _beat(grader: Grader) -> bool:
    """Whether a process still writes in the folder."""
    beat = grader.folder / "beat"
    if not beat.exists():
        return False
    before = beat.stat().st_mtime_ns
    time.sleep(0.1)
    return beat.stat().st_mtime_ns != before


def _wait_until_it_begins(grader: Grader) -> None:
    until = time.monotonic() + 60
    while not grader.signalled[2] and time.monotonic() < until:
        time.sleep(0.01)


def _is_over(process: int) -> bool:
    """Whether a process has ended or is a zombie; a killed one may take a moment."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if _is_zombie(process):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _alive(process: int) -> bool:
    return os.waitpid(process, os.WNOHANG) == (0, 0)


if __name__ == "__main__":
    main()
