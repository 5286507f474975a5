"""What a warm process has loaded, and the conditions under which forks of it are like a fresh process.

Only imports are done, nothing is called: whatever a library says or notes at its first use, it does in the
kernel. An import that prints or warns would not be seen by the cell that does it again, so that ends it all.
"""

import contextlib
import gc
import importlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

__all__ = [
    "OF_EXPORTERS",
    "OF_KERNELS",
    "OF_NOTEBOOKS",
    "NotLikeFresh",
    "Preloaded",
    "load",
    "require_one_thread",
    "threads",
]

OF_KERNELS = (
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "IPython.utils.wildcard",
    "psutil",
    "resource",
    "faulthandler",
    "sqlite3",
    "tornado.locks",
    "tornado.platform.asyncio",
    "tornado.queues",
    "encodings.idna",
    "stringprep",
)
"""What ipykernel imports until it is ready."""

OF_NOTEBOOKS = (
    "numpy",
    "torch",
    "onnx",
    "onnxruntime",
    "torch.onnx",
    "onnxscript",
)
"""What cells import, in this order. Not this package: a fork imports it anew, as its files are then. Nor what
looks at its import whether it is in a kernel, as ipywidgets does."""

OF_EXPORTERS = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch.export._trace",
    "torch.onnx._internal.exporter._core",
    "torch.onnx._internal.exporter._torchlib.ops",
    "onnxscript.function_libs.torch_lib.ops",
)
"""What torch's exporters import when they are first used. Most is private: another torch may not have it."""

_OF_A_DRIVER = ("/dev/nvidia", "/dev/kfd", "/dev/dri")


class NotLikeFresh(Exception):
    """A fork of this process would not behave as a fresh one does."""


@dataclass(frozen=True)
class Preloaded:
    """What a process with everything loaded knows of its beginning.

    Attributes:
        variables: The variables that it had when it loaded its packages.
        added: Those that ipykernel's imports set: a kernel that was just started has them.
    """

    variables: dict[str, str]
    added: dict[str, str]


def load() -> Preloaded:
    """Import everything, forget that warnings were given, and leave one thread.

    Raises:
        NotLikeFresh: If an import fails, says something, or leaves a thread or a graphics driver running.
    """
    variables = dict(os.environ)
    os.environ["JPY_PARENT_PID"] = "1"  # ipykernel reads it once; 1: somebody else watches the parent
    before = dict(os.environ)
    for name in OF_KERNELS:
        _import(name)  # what these say goes to the log, as an ordinary kernel's words go to the terminal
    added = dict(os.environ.items() - before.items())
    for name in (*OF_NOTEBOOKS, *OF_EXPORTERS):
        with _silently(name):
            _import(name, optional=name in OF_EXPORTERS)
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            vars(module).pop("__warningregistry__", None)
    _settle()
    require_one_thread()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(descriptor.readlink()).startswith(_OF_A_DRIVER):
                msg = f"an import opened {descriptor.readlink()}, which a fork cannot use"
                raise NotLikeFresh(msg)
    gc.collect()
    gc.freeze()  # memory that the collector never touches stays shared with the forks
    return Preloaded(variables, added)


def threads() -> int:
    """Return how many threads this process has."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 (before every fork; half the time)


def require_one_thread() -> None:
    """See that a fork copies the whole process. A lock that another thread holds would be held for ever.

    Raises:
        NotLikeFresh: If there are other threads.
    """
    if (number := threads()) != 1:
        msg = f"{number} threads run in the warm process, and a fork copies one"
        raise NotLikeFresh(msg)


def _import(name: str, *, optional: bool = False) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not optional:
            msg = f"`import {name}` fails: {error}"
            raise NotLikeFresh(msg) from None
    except Exception as error:
        msg = f"`import {name}` fails: {type(error).__name__}: {error}"
        raise NotLikeFresh(msg) from None


def _settle() -> None:
    """Fork once for nothing: OpenBLAS ends its threads before a fork, and starts as many at its next use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 on counts the threads that are being ended
        if not (process := os.fork()):
            os._exit(0)
    os.waitpid(process, 0)


@contextlib.contextmanager
def _silently(name: str) -> Iterator[None]:
    """Raise NotLikeFresh if what is done writes anything, by Python or by C, or warns."""
    warned: list[str] = []
    show = warnings.showwarning
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
        warnings.showwarning = lambda message, *_, **__: warned.append(str(message))
        try:
            yield
        finally:
            warnings.showwarning = show
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
        written.seek(0)
        said = warned or written.read().decode(errors="replace").split("\n")
    if line := next((line.strip() for line in said if line.strip()), ""):
        msg = f"`import {name}` says {line[:200]!r}, which a cell would not show again"
        raise NotLikeFresh(msg)
