"""What a process has from whoever starts it and a fork cannot change: it decides who shares a warm process.

Libraries read variables when they are imported, and a warm process has imported them already. So one serves
only those who would have started it with the same variables, limits, groups, namespaces and interpreter.
"""

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["IMPORT_TIME", "PERSONAL", "differing", "import_time", "key", "personal"]

IMPORT_TIME = (
    # the interpreter, the loader, the C library
    r"PYTHON\w*",
    r"__PYVENV_LAUNCHER__",
    r"_PYTHON_\w*",
    r"LD_\w*",
    r"GLIBC_\w*",
    r"MALLOC_\w*",
    r"LANG|LANGUAGE|LC_\w*|TZ|TZDIR",
    r"OPENSSL_\w*",
    # threads and processors
    r"(OMP|GOMP|KMP|ACC|I_MPI|OMPI|MPI|MKL|MKLDNN|DNNL|ONEDNN|INTEL|OPENBLAS|GOTO|BLIS|GFORTRAN)_\w*",
    # numpy, torch and their tools
    r"(NPY|NUMPY|NVPL)_\w*",
    r"(TORCH|PYTORCH|ATEN|KINETO|FX_|PT2_|COMPILE_STROBELIGHT|TRITON|XPU|ZE_)\w*",
    r"(CUDA|CUBLAS|CUDNN|CUTLASS|CUTEDSL|NCCL|NVIDIA|HIP|ROCM|ROCR|HSA)\w*",
    r"(AOT|INDUCTOR|PARTITIONER|DUMP_AOTI|ENABLE|FAKE|LOG|UNSAFE)_\w*|AOTINDUCTOR\w*|CXX|CI",
    r"_?(SYMPY|MPMATH|SAGE|NETWORKX|MSGPACK)_\w*",
    # ONNX, ONNX Runtime, protobuf
    r"(ORT|ONNX|ONNXRUNTIME|ONNXSCRIPT)_\w*",
    r"(PROTOCOL_BUFFERS|TEMPORARILY_DISABLE_PROTOBUF)_\w*",
    # the kernel
    r"IPYTHON_\w*|(PYZMQ|TORNADO|TRAITLETS|PSUTIL|PYDEV|DEBUGPY|DEBUG_PYDEVD|PYCHARM|GEVENT)\w*",
    r"PATHS_FROM_ECLIPSE_TO_PYTHON",
    r"IN_SPHINX_RUN",
    r"JUPYTER_(PLATFORM_DIRS|USE_PROGRAMDATA|ALLOW_INSECURE_WRITES)",
)
"""Patterns of the variables that the loaded packages read when they are imported; a test reads along.

`ONNXLAB_*` is not among them: a fork forgets this package and imports it again.
"""

PERSONAL = r"HOME|USER|USERNAME|LOGNAME|LNAME|PATH|TMPDIR|TEMP|TMP"
"""What names a person's places. Some packages note such a place when they are imported."""

_IMPORT_TIME = re.compile("|".join(IMPORT_TIME))
_PERSONAL = re.compile(PERSONAL)
_STATUS = re.compile(
    r"^(Umask|Uid|Gid|Groups|SigIgn|Cap\w+|NoNewPrivs|Seccomp\w*|Cpus_allowed|Mems_allowed):.*$", re.MULTILINE
)


def import_time(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter when packages are imported.

    >>> import_time({"OMP_NUM_THREADS": "2", "EDITOR": "vi", "ONNXLAB_STATE": "progress.json"})
    {'OMP_NUM_THREADS': '2'}
    """
    return {name: value for name, value in sorted(variables.items()) if _IMPORT_TIME.fullmatch(name)}


def personal(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name a person's places."""
    return {name: value for name, value in sorted(variables.items()) if _PERSONAL.fullmatch(name)}


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that matter at import and are not the same in both.

    >>> differing({"TZ": "UTC", "EDITOR": "vi"}, {"EDITOR": "ed"})
    ['TZ']
    """
    one, other = import_time(first), import_time(second)
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def key(options: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return what a warm process for this process, these options of Python and these variables is called."""
    facts = {
        "interpreter": [sys.executable, sys.version, *options],
        "variables": {**import_time(variables), **personal(variables)},
        "inherited": _inherited(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _inherited() -> dict[str, object]:
    """Return what every child of this process has from it; Linux."""
    process = Path("/proc/self")
    facts: dict[str, object] = {
        "status": [found[0] for found in _STATUS.finditer((process / "status").read_text())],
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "namespaces": sorted(str(link.readlink()) for link in (process / "ns").iterdir()),
        "root": str((process / "root").readlink()),
    }
    for name in ("limits", "cgroup", "personality", "oom_score_adj", "attr/current"):
        with contextlib.suppress(OSError):  # not every system has them
            facts[name] = (process / name).read_text()
    return facts
