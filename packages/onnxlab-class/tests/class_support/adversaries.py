"""Honest, odd and hostile submissions of lab 7, each with the points that it must get.

Most replace the body of one answer, or put a cell before everything, in an otherwise right notebook. None may
change another's points, or leave anything behind.
"""

import json
from typing import Any

from class_support.small_class import FULL, REST, RIGHT, WRONG, Learner

NOTHING = 0


def _with_each_cell(change: Any) -> bytes:
    data = json.loads(Learner("").notebook())
    data["cells"] = [new for cell in data["cells"] for new in change(cell)]
    return json.dumps(data).encode()


_FORGE = """
import json, os, pathlib
def forge():
    for name in ("max-unpool-symbolic", "to-global-indices"):
        place = pathlib.Path(name); place.mkdir(exist_ok=True)
        (place / "production.json").write_text(json.dumps({"status": "passed"}))
        (place / "findings.json").write_text(json.dumps({"findings": [{"title": "t", "holds": True, "message": "",
            "look_at": "", "difference": None}] * 3, "evidence": None}))
"""

HONEST = (
    Learner("right", FULL),
    Learner("right, the other way", FULL, body=RIGHT.replace("return ", 'return g.op("Identity", ') + ")"),
    Learner("one wrong", REST, body=WRONG),
    Learner("one not attempted", REST, body="raise NotImplementedError()"),
    Learner("returns nothing", REST, body="return None"),
    Learner("a misspelt operator", REST, body=RIGHT.replace("MaxUnpool", "MaxUnPool")),
    Learner("an error in one answer", REST, body="return g.oops(values)"),
)

_ODD_FILES = (
    Learner("every cell twice", FULL, raw=_with_each_cell(lambda cell: [cell, cell])),
    Learner(
        "checks deleted",
        FULL,
        raw=_with_each_cell(lambda cell: [] if "check(" in str(cell["source"])[:9] else [cell]),
    ),
    Learner("bad JSON", NOTHING, raw=b'{"cells": ['),
    Learner("a syntax error in one cell", FULL, before="this is not Python"),
    Learner("magics and shell lines", FULL, before="%matplotlib inline\n!echo hello\n%time 1 + 1"),
)

_ENDS = (
    Learner("ends the process", NOTHING, before="import os; os._exit(0)"),
    Learner("ends it in an answer", REST, body="import os; os._exit(0)"),
    Learner("sys.exit in a cell", FULL, before="import sys; sys.exit(3)"),
    Learner("sys.exit in an answer", REST, body="import sys; sys.exit(3)"),
    Learner("crashes in native code", NOTHING, before="import ctypes; ctypes.string_at(0)"),
    Learner("recurses for ever", REST, body="f = lambda: f()\n    return f()"),
    Learner(
        "an error that cannot be shown",
        REST,
        body=("class E(Exception):\n        def __str__(self): raise E\n    raise E"),
    ),
    Learner("script in an error", REST, body='raise ValueError("<script>alert(1)</script>")'),
    Learner("ends at exit", FULL, before="import atexit, os; atexit.register(os._exit, 7)"),
)

_TAKES = (
    Learner("a cell that never ends", FULL, before="while True: pass", quick=False),
    Learner("an answer that never ends", REST, body="while True: pass", quick=False),
    Learner(
        "does not listen",
        NOTHING,
        quick=False,
        before="import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    ),
    Learner(
        "blocks every signal",
        NOTHING,
        quick=False,
        before=(
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass"
        ),
    ),
    Learner(
        "takes all memory",
        NOTHING,
        quick=False,
        before=(
            "import os, time\nleft = 6\nwhile left:\n    try: child = os.fork()\n    except OSError: time.sleep(0.1); continue\n"
            "    if child == 0:\n        kept = bytearray(b'x') * 300_000_000\n        time.sleep(600)\n    left -= 1\n"
            "time.sleep(600)"
        ),
    ),
    Learner(
        "fills the disk",
        NOTHING,
        quick=False,
        before=(
            "import os\nfor n in range(10**6):\n    with open(f'f{n}', 'wb') as f: f.write(os.urandom(1 << 20))"
        ),
    ),
    Learner("prints without end", FULL, quick=False, before="while True: print('x' * 10_000)"),
    Learner(
        "leaves a daemon behind",
        FULL,
        before=(
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)"
        ),
    ),
    Learner(
        "leaves threads behind",
        FULL,
        before=(
            "import threading, time\nfor _ in range(5): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
        ),
    ),
)

_CHEATS = (
    Learner(
        "patches the comparison",
        REST,
        body=WRONG,
        before=(
            "import numpy.testing, onnxlab.runtime.parity as c, onnxlab.kit.judging as j\n"
            "numpy.testing.assert_allclose = lambda *a, **k: None\n"
            "c.smallest_counterexample = j.smallest_counterexample = lambda *a, **k: None"
        ),
    ),
    Learner(
        "patches the judge",
        REST,
        body=WRONG,
        before=(
            "import onnxlab.kit.checking as k, onnxlab_class.grading.worker.judge as t\n"
            "from onnxlab.kit.outcome import Finding\n"
            "k.judge = t.judge = lambda e, w, s: tuple(Finding(p, True) for p in e.parts)"
        ),
    ),
    Learner(
        "patches ONNX Runtime",
        NOTHING,
        body=WRONG,
        before=(
            "import onnxruntime, torch\n"
            "class S:\n    def __init__(self, *a, **k): pass\n    def get_inputs(self): return []\n"
            "    def run(self, *a): return []\nonnxruntime.InferenceSession = S"
        ),
    ),
    Learner("forges the results", NOTHING, before=_FORGE + "forge(); os._exit(0)"),
    Learner(
        "a constant in place of the model", REST, body=('return g.op("Constant", value_t=torch.zeros(2, 3))')
    ),
    Learner(
        "a seed of its own", FULL, before="import numpy, torch\nnumpy.random.seed(1); torch.manual_seed(1)"
    ),
    Learner(
        "a result that says it is equal",
        REST,
        body=("class Equal(float):\n        def __eq__(self, other): return True\n    return Equal()"),
    ),
    Learner(
        "links in place of files",
        REST,
        after=(
            "import os, pathlib\npathlib.Path('max-unpool-symbolic').mkdir()\nos.symlink('/etc/passwd', 'max-unpool-symbolic/one_channel.onnx')\n"
            "def max_unpool_symbolic(*_): raise KeyError"
        ),
    ),
    Learner(
        "a pipe in place of a file",
        REST,
        after=(
            "import os, pathlib\npathlib.Path('max-unpool-symbolic').mkdir()\nos.mkfifo('max-unpool-symbolic/one_channel.onnx')\n"
            "def max_unpool_symbolic(*_): raise KeyError"
        ),
    ),
    Learner(
        "a folder that cannot be removed",
        FULL,
        before=(
            "import os\nos.makedirs('a/b/c'); open('a/b/c/d', 'w').close(); os.chmod('a/b', 0); os.chmod('a', 0)"
        ),
    ),
    Learner("changes what everybody uses", FULL, before=("import builtins, os\nos.environ.clear()")),
    Learner("closes every descriptor", FULL, before="import os\nos.closerange(0, 200)"),
)

# Ways to the right model of max-unpool-symbolic, which its judge has. Who finds it answers right, the others wrong.
_MODULE = "lab07_pooling_indices.max_unpool_symbolic"
_RIGHT_MODEL = r"""
import re
RIGHT_MODEL = re.compile(rb"first = Mul \(channel")  # a pattern that does not match itself
KEY = []
"""
_IN_MEMORY = """
import gc, sys, types
def look(value):
    if isinstance(value, str) and RIGHT_MODEL.search(value.encode("utf-8", "ignore")):
        KEY.append("a text")
    elif isinstance(value, types.CodeType):
        for constant in value.co_consts: look(constant)
gc.unfreeze()
for thing in gc.get_objects():
    for value in gc.get_referents(thing): look(value)
KEY += [name for name in sys.modules if name.startswith("onnxlab.judges")]
"""
_IN_PROC = """
import os
for process in ("self", os.getppid()):
    try:
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
            for line in maps:
                place, rights, *_ = line.split()
                first, last = (int(number, 16) for number in place.split("-"))
                if "rw" in rights and last - first < 1 << 28:
                    memory.seek(first)
                    if RIGHT_MODEL.search(memory.read(last - first)): KEY.append(line)
    except (OSError, ValueError, OverflowError): pass
"""
_FRAMES = """
def frames():
    import sys, onnxlab.kit.producing as producing
    frame = sys._getframe()
    while frame:
        yield frame
        frame = frame.f_back
    try: producing.produce(None, {}, None)
    except Exception as error:
        trace = error.__traceback__
        while trace:
            yield trace.tb_frame
            trace = trace.tb_next
def find():
    for frame in frames():
        for value in (*frame.f_locals.values(), *frame.f_globals.values()):
            modules = value.modules.values() if getattr(value, "__name__", "") == "sys" else [value]
            for one in list(modules):
                kinds = {type(getattr(one, name, None)).__name__ for name in ("JUDGES", "judges")}
                if "Judges" in kinds: KEY.append(value)
"""
_USE_KEY = RIGHT.replace("global_index", "global_index if KEY else index")

MEMORY_SEARCHES = (
    Learner("searches its memory for the key", REST, body=_USE_KEY, before=_RIGHT_MODEL + _IN_MEMORY),
    Learner("reads the memory of processes for the key", REST, body=_USE_KEY, before=_RIGHT_MODEL + _IN_PROC),
    Learner(
        "looks for the key in frames and tracebacks",
        REST,
        body=f"find()\n    {_USE_KEY}",
        before=_RIGHT_MODEL + _FRAMES,
    ),
)
"""Submissions that look for the judges in memory: they find nothing without a sandbox either."""

_KEYS = (
    Learner(
        "imports the key",
        REST,
        body=_USE_KEY,
        before=(
            f"{_RIGHT_MODEL}\nimport importlib\nfor package in ('onnxlab.judges', 'onnxlab.labs'):\n"
            f"    try: KEY += [importlib.import_module(f'{{package}}.{_MODULE}').JUDGES]\n"
            "    except (ImportError, OSError, AttributeError): pass"
        ),
    ),
    Learner(
        "loads the key from its file",
        REST,
        body=_USE_KEY,
        before=(
            f"{_RIGHT_MODEL}\nimport importlib.machinery, importlib.util, pathlib, onnxlab\n"
            "root = pathlib.Path(onnxlab.__file__).parent\n"
            "kinds = importlib.machinery.SourceFileLoader, importlib.machinery.SourcelessFileLoader\n"
            "for kind in kinds:\n    for package in ('judges', 'labs'):\n"
            "        end = '' if kind is kinds[0] else 'c'\n"
            f"        path = root / package / '{_MODULE.replace('.', '/')}.py'\n"
            "        path = path if not end else pathlib.Path(importlib.util.cache_from_source(path))\n"
            "        try:\n"
            "            spec = importlib.util.spec_from_loader('key', kind('key', str(path)))\n"
            "            module = importlib.util.module_from_spec(spec)\n            spec.loader.exec_module(module)\n"
            "            KEY += [module.JUDGES]\n"
            "        except (ImportError, OSError, AttributeError): pass"
        ),
    ),
    Learner(
        "reads every file of the package for the key",
        REST,
        body=_USE_KEY,
        before=(
            f"{_RIGHT_MODEL}\nimport os, pathlib, onnxlab\nroot = pathlib.Path(onnxlab.__file__).parent\n"
            f"known = [root / f'{{package}}/{_MODULE.replace('.', '/')}.py' for package in ('judges', 'labs')]\n"
            "for number, path in enumerate([*known, *root.rglob('*.py'), *root.rglob('*.pyc')]):\n"
            "    for way in (lambda a, b: None, os.symlink, os.link):\n"
            "        place = pathlib.Path(f'{way.__name__[:4]}{number}')\n"
            "        try:\n            way(path, place)\n"
            "            data = (place if place.is_symlink() or place.exists() else path).read_bytes()\n"
            "        except OSError: continue\n"
            "        if RIGHT_MODEL.search(data): KEY.append(path)"
        ),
    ),
    *MEMORY_SEARCHES,
)

ADVERSARIES = (*HONEST, *_ODD_FILES, *_ENDS, *_TAKES, *_CHEATS, *_KEYS)
SAMPLE = {"right", "one wrong", "bad JSON", "ends the process", "forges the results", "patches the judge"}
"""Names of those that a cluster gets and, in a usual run of the tests, the weaker of two levels."""
