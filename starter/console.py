"""Output in the terminal: steps, a line that updates itself, the message of a failure."""

import sys


class Stop(Exception):
    """Ends the command with three lines: what happened, why, what to do next."""

    def __init__(self, what: str, why: str, then: str, *, code: int = 1) -> None:
        self.what, self.why, self.then, self.code = what, why, then, code
        super().__init__(f"{what}\n{why}\n{then}")


def step(number: int, text: str) -> None:
    """Print which of the four steps begins."""
    print(f"[{number}/4] {text}", flush=True)


def show_line(text: str) -> None:
    """Print a line; characters that the terminal cannot encode become question marks."""
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def show(text: str) -> None:
    """Show the progress of a step in a line that the next call overwrites; "" clears it."""
    if sys.stdout.isatty():
        print(f"\r{text[:78]:<78}", end="" if text else "\r", flush=True)
