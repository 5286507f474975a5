"""What a failed pip means, and what to do about it."""

import re
from pathlib import Path

from starter import wheelhouse
from starter.console import Stop

__all__ = ["diagnosis"]

# What pip says when something fails, and what that means.
_OFFLINE = (
    r"Failed to establish a new connection|NewConnectionError|NameResolutionError|getaddrinfo failed"
    r"|ConnectTimeout|Read timed out|ProxyError|Connection (refused|reset|aborted)|Network is unreachable"
)
_REASONS = (
    (r"No space left on device|Errno 28", "The disk is full.", "Free about 3 GB and"),
    (_OFFLINE, "The package index did not answer.", "Check the network (pip's proxy or mirror too) and"),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        "The package index's certificate was refused.",
        "Ask who runs the network, and",
    ),
    (
        r"No matching distribution found",
        "The index has no such package for this Python.",
        "Read the log, and",
    ),
    (r"Permission denied|Errno 13", "A folder is not writable.", "Make the course's folder writable and"),
)


def diagnosis(said: str, log: Path, *, offline: bool = False) -> Stop:
    """Return the message about a failed pip, from what it said."""
    why, then = "pip said:", "Read the log, and"
    for pattern, reason, advice in _REASONS:
        if re.search(pattern, said):
            if offline and "distribution" in pattern:
                reason, advice = wheelhouse.MISSING
            why, then = f"{reason} pip said:", advice
            break
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "error"))] or lines
    last = [f"    {line[:160]}" for line in errors[-3:]]
    return Stop(
        "The packages could not be installed.",
        "\n".join([why, *last]),
        f"{then} run the same command again: it goes on where it stopped. Log: {log}",
    )
