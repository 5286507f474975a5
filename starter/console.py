"""Output in the terminal: steps, a line that updates itself, the message of a failure.

It is in the language that `speak` chooses. The package's translations are read from the clone: they need
nothing but the standard library, and are there before anything is installed.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "src"))

from onnxlab.errors import OnnxLabError  # found only now
from onnxlab.language import chosen_language, speak, tr
from onnxlab.message import Message

__all__ = ["Message", "OnnxLabError", "Stop", "chosen_language", "show", "show_line", "speak", "step", "tr"]


class Stop(Exception):
    """Ends the command with three lines: what happened, why, what to do next."""

    def __init__(self, what: str, why: str, then: str, *, code: int = 1, **values: object) -> None:
        self.what, self.why, self.then = (Message(text, **values) for text in (what, why, then))
        self.code = code
        super().__init__(f"{self.what}\n{self.why}\n{self.then}")

    def __str__(self) -> str:
        return "\n".join(map(tr, (self.what, self.why, self.then)))


def step(number: int, text: str) -> None:
    """Print which of the four steps begins."""
    show_line(f"[{number}/4] {tr(text)}")


def show_line(text: str) -> None:
    """Print a line; characters that the terminal cannot encode become question marks."""
    encoding = sys.stdout.encoding or "ascii"
    print(tr(text).encode(encoding, "replace").decode(encoding), flush=True)


def show(text: str) -> None:
    """Show the progress of a step in a line that the next call overwrites; "" clears it."""
    if sys.stdout.isatty():
        print(f"\r{tr(text)[:78]:<78}", end="" if text else "\r", flush=True)
