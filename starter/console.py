"""What a person reads in the terminal: steps, a line that updates itself, the message a failure ends with."""

import sys

__all__ = ["Stop", "show", "show_line", "step"]


class Stop(Exception):
    """Something that ends the command, in three lines: what happened, why, what to do next."""

    def __init__(self, what: str, why: str, then: str, *, code: int = 1) -> None:
        self.what, self.why, self.then, self.code = what, why, then, code
        super().__init__(f"{what}\n{why}\n{then}")


def step(number: int, text: str) -> None:
    """Say which of the four steps comes now."""
    print(f"[{number}/4] {text}", flush=True)


def show_line(text: str) -> None:
    """Print a line; what the terminal has no sign for becomes a question mark."""
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def show(text: str) -> None:
    """Show how far a long step is, in a line that the next one takes the place of; an empty one wipes it."""
    if sys.stdout.isatty():
        print(f"\r{text[:78]:<78}", end="" if text else "\r", flush=True)
