"""A forked kernel behaves as one that was started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from kernel_runs import wait_until, warm_processes

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only"),
    pytest.mark.slow,
]

FACTS = """
import asyncio, gc, json, locale, logging, os, resource, signal, sys, tempfile, threading, warnings
import numpy as np, torch, onnx, onnxruntime, torch.onnx, onnxscript
np.ones((400, 400)) @ np.ones((400, 400)); torch.ones(400, 400) @ torch.ones(400, 400)
print(json.dumps({
    "path": sys.path, "argv": sys.argv[:2], "command": sys.orig_argv[:4], "flags": str(sys.flags),
    "main": repr(sys.modules["__main__"]), "name": __name__, "onnxlab": "onnxlab" in sys.modules,
    "folder": os.getcwd(), "temporary": tempfile.gettempdir(), "umask": os.umask(0o22),
    "session": os.getsid(0) == os.getpid() == os.getpgid(0),
    "signals": {str(n): str(signal.getsignal(n)).split(" at ")[0] for n in range(1, 32)},
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "variables": {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"},
    "threads": [torch.get_num_threads(), torch.get_num_interop_threads(), len(os.listdir("/proc/self/task"))],
    "processors": sorted(os.sched_getaffinity(0)), "nice": os.nice(0),
    "filters": sorted(map(str, warnings.filters)), "seen": getattr(torch, "__warningregistry__", None),
    "loggers": {str(logging.getLogger(n).handlers)[:40] for n in ("", "torch")}.__len__(),
    "locale": [locale.getlocale(), sys.stdout.encoding, sys.getfilesystemencoding()],
    "files": sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in ("0", "1", "2")),
    "collector": [gc.isenabled(), gc.get_threshold()],
    "loop": type(asyncio.get_event_loop_policy()).__name__,
    "debugger": sys.gettrace() is None,
}))
"""


def test_it_is_like_one_that_was_started(start, tmp_path: Path) -> None:
    given = {"env": {"A_VARIABLE": "with ü and \udcff"}, "cwd": str(tmp_path)}
    forked, ordinary = start(**given), start("local-provisioner", **given)
    assert type(forked.manager.provisioner.process).__name__ == "ForkedProcess"
    assert type(ordinary.manager.provisioner.process).__name__ == "Popen"
    one, other = json.loads(forked.run(FACTS)), json.loads(ordinary.run(FACTS))
    for fact in other:
        assert one[fact] == other[fact], fact
    assert one["folder"] == str(tmp_path)
    assert one["variables"]["A_VARIABLE"] == "with ü and \udcff"


def test_torch_is_there_already(start) -> None:
    kernel = start()
    assert kernel.run("import sys; print({'torch', 'onnx', 'onnxruntime'} <= set(sys.modules))") == "True"
    assert kernel.process.parent().cmdline()[2] == "onnxlab.kernels.warm"


def test_warnings_of_a_first_time_are_still_to_come(start) -> None:
    code = (
        "import io, torch\n"
        "def export():\n"
        "    torch.onnx.export(torch.nn.ReLU(), (torch.ones(1),), io.BytesIO(), dynamo=False)\n"
        "export()\n"
    )
    forked, ordinary = start(), start("local-provisioner")
    said = [
        [line for line in kernel.run(code).splitlines() if "Warning" in line] for kernel in (forked, ordinary)
    ]
    assert said[0]
    assert [line.partition("Warning: ")[2] for line in said[0]] == [
        line.partition("Warning: ")[2] for line in said[1]
    ]


def test_what_c_code_prints_is_seen(start) -> None:
    kernel = start()
    code = "import ctypes, time; c = ctypes.CDLL(None); c.puts(b'from C'); c.fflush(None); time.sleep(0.5)"
    assert "from C" in kernel.run(code) + kernel.run("print()")


def test_output_goes_where_the_caller_wants_it(start, tmp_path: Path) -> None:
    with (tmp_path / "stdout").open("wb") as out, (tmp_path / "stderr").open("wb") as err:
        kernel = start(stdout=out, stderr=err)
    kernel.run("import sys; sys.__stdout__.flush(); sys.__stderr__.write('to the terminal\\n')")
    kernel.run("import os; os.system('echo of a child process')")
    kernel.manager.shutdown_kernel()
    assert "to the terminal" in (tmp_path / "stderr").read_text()


def test_interrupt_reaches_the_kernel_and_what_it_started(start) -> None:
    kernel = start()
    message = kernel.client.execute("import subprocess; subprocess.run(['sleep', '1000'])")
    wait_until(lambda: kernel.process.children(), "the cell starts a process")
    sleeping = kernel.process.children()[0]
    kernel.manager.interrupt_kernel()
    reply = kernel.client.get_shell_msg(timeout=60)
    assert reply["parent_header"]["msg_id"] == message
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    wait_until(lambda: not sleeping.is_running(), "it is interrupted, too")
    assert kernel.run("print('goes on')") == "goes on"


def test_restart_gives_another_process(start) -> None:
    kernel = start()
    kernel.run("kept = 1")
    before = kernel.process
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    assert kernel.process.pid != before.pid
    assert not before.is_running()
    assert kernel.run("kept").startswith("NameError")
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=60)
    assert kernel.process.parent().cmdline()[2] == "onnxlab.kernels.warm"


def test_shutdown_ends_it(start) -> None:
    kernel = start()
    process = kernel.process
    forked = kernel.manager.provisioner.process
    kernel.run("import atexit, pathlib; atexit.register(print, 'over')")
    kernel.manager.shutdown_kernel()
    assert not process.is_running()
    assert forked.returncode == 0
    assert not kernel.manager.is_alive()


@pytest.mark.parametrize(
    ("code", "returned"),
    [
        ("import os; os._exit(3)", 3),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_its_death_is_noticed(start, code: str, returned: int) -> None:
    kernel = start()
    forked = kernel.manager.provisioner.process
    kernel.client.execute(code)
    wait_until(lambda: not kernel.manager.is_alive(), "its death is noticed")
    assert forked.returncode == returned


def test_two_at_once_are_two(start) -> None:
    code = (
        "import random, numpy, onnx.parser, onnxruntime, torch, uuid\n"
        "model = onnx.parser.parse_model('<ir_version: 9, opset_import: [\"\" : 20]> g () => (float[1] y)'\n"
        "    '{ y = RandomUniform<shape = [1]>() }')\n"
        "drawn = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {})[0][0]\n"
        "print(random.random(), numpy.random.rand(), torch.rand(1).item(), drawn, uuid.uuid4())"
    )
    one, other = start(), start()
    one.run("mine = 1")
    assert other.run("mine").startswith("NameError")
    drawn = one.run(code).split(), other.run(code).split()
    assert all(a != b for a, b in zip(*drawn, strict=True))
    assert one.process.parent() == other.process.parent()


def test_it_ends_with_whoever_asked(place: Path) -> None:
    code = (
        "import sys, time; from kernel_runs import started; kernel = started()\n"
        "print(kernel.process.pid, flush=True); time.sleep(1000)"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    asking = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    with asking:
        assert asking.stdout
        kernel = psutil.Process(int(asking.stdout.readline()))
        assert "onnxlab.kernels.warm" in kernel.cmdline()
        asking.kill()
    wait_until(lambda: not kernel.is_running(), "the kernel ends")


def test_kernels_outlive_the_warm_process(start, place: Path) -> None:
    kernel = start()
    forked, warm = kernel.manager.provisioner.process, kernel.process.parent()
    warm.kill()
    wait_until(lambda: kernel.process.parent() != warm, "the warm process is gone")
    assert kernel.run("print(1 + 1)") == "2"
    other = start()  # and another is started when one is needed
    assert other.process.parent() not in (warm, None)
    kernel.manager.shutdown_kernel()
    assert forked.returncode == 255  # nobody knows
    assert warm not in warm_processes(place)


def test_the_debugger_works(start) -> None:
    kernel = start()
    assert "debugger" in kernel.client.kernel_info(reply=True, timeout=60)["content"]["supported_features"]
    for number, (command, arguments) in enumerate(
        [("initialize", {"pathFormat": "path"}), ("attach", {})], 1
    ):
        request = {"type": "request", "seq": number, "command": command, "arguments": arguments}
        message = kernel.client.session.msg("debug_request", request)
        kernel.client.control_channel.send(message)
        if command == "initialize":
            assert kernel.client.get_control_msg(timeout=60)["content"]["success"]
    assert kernel.run("print('goes on')") == "goes on"
