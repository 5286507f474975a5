"""Give damaged models and messages to `onnxlab doctor`, `compare`, `open` and `why`, each trial in a process.

Expected is an answer, or at most three lines on stderr and an exit code other than 0. A fault is an exception
that leaves the command, a longer message, a process that ends by a signal, or a byte of a file outside the
model's folder.
"""

import contextlib
import io
import os
import tempfile
from functools import partial
from pathlib import Path
from random import Random

import netron

from onnxlab.cli import main
from onnxlab.diagnosis.messages import answers
from onnxlab.errors import OnnxLabError
from tools.fuzz.models import SECRET, Stage, damaged_folder, known_models, run_apart
from tools.fuzz.mutation import mutated
from tools.fuzz.table import Table

_ODD_PATHS = ("no file", "nothing in it", "random bytes", "text", "a folder", "a FIFO", "a loop of links")
_ODD = 0.15
"""The part of the trials whose file is none at all."""


def fuzz_commands(trials: int, seed: int, *, first: int = 0) -> Table:
    """Try so many damaged models and messages; the same seed gives the same ones."""
    table = Table("command", ["answered", "refused"])
    models = known_models()
    with tempfile.TemporaryDirectory() as name:
        for number in range(first, first + trials):
            random = Random(f"commands {seed} {number}")
            place = Path(name) / "trial"
            odd = random.choice(_ODD_PATHS) if random.random() < _ODD else ""
            data, other = mutated(random.choice(models), random), random.choice(models)
            for command, kind, reason, example in run_apart(place, _stages(place, data, other, odd, random)):
                kind = "answered" if kind == "drawn" else kind
                table.add(command, kind, reason, f"trial {number}{odd and f', {odd}'}: {example}")
            table.progress(number - first + 1, trials)
    return table


def _stages(place: Path, data: bytes, other: bytes, odd: str, random: Random) -> list[Stage]:
    path = place / "model" / "model.onnx"

    def prepare() -> None:
        damaged_folder(place, data, other)
        if odd:
            path.unlink()
            _make_odd(path, odd, random)

    pair = [str(path), str(place / "other.onnx")]
    message = _damaged_message(random)
    return [
        ("prepare", prepare),
        ("doctor", partial(_run, ["doctor", "--seconds", "10", str(path)])),
        ("doctor --json", partial(_run, ["doctor", "--json", "--seconds", "10", str(path)])),
        ("compare", partial(_run, ["compare", *pair])),
        ("compare, the other way", partial(_run, ["compare", *reversed(pair)])),
        ("open", partial(_run, ["open", "--no-browser", str(path)])),
        ("why", partial(_run, ["why", "--", message])),
    ]


def _make_odd(path: Path, odd: str, random: Random) -> None:
    """Put something at the path that is no model."""
    if odd == "nothing in it":
        path.touch()
    elif odd == "random bytes":
        path.write_bytes(random.randbytes(random.randint(1, 5000)))
    elif odd == "text":
        path.write_text("version https://git-lfs.github.com/spec/v1\n")
    elif odd == "a folder":
        path.mkdir()
    elif odd == "a FIFO":
        os.mkfifo(path)
    elif odd == "a loop of links":
        path.symlink_to(path.name)


def _damaged_message(random: Random) -> str:
    """Return parts of known messages with other things between them."""
    texts = [text for answer in answers() for text in answer.texts]
    parts = [random.choice(texts) for _ in range(random.randint(1, 3))]
    parts += random.choices(["\x1b[31m", "\n" * 50, "x" * 100_000, "名", "\ud800", "(((", "%s {0}", ""], k=2)
    random.shuffle(parts)
    text = " ".join(parts)
    cut = random.randrange(len(text) + 1)
    return text[cut:] if random.random() < 0.5 else text[:cut] + text[cut + random.randint(0, 40) :]


def _run(arguments: list[str]) -> None:
    netron.wait = netron.stop  # `open` serves until somebody presses Ctrl+C
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    shown = out.getvalue().encode("utf-8", "replace")
    assert SECRET not in shown, "A file outside the model's folder was read."
    assert shown or err.getvalue(), "Nothing was printed."
    if err.getvalue():
        assert code, f"Exit code 0 after: {err.getvalue()}"
        raise OnnxLabError(err.getvalue().strip())
