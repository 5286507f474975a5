"""`expect_error` and `expect_warning`: a cell requires a failure or a warning, and shows it in a line or two.

What is shown is the same on every machine, so that it can be committed and compared.
"""

import io
import logging
import os
import re
import site
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from onnxlab.errors import ClaimBroken, chain
from onnxlab.exporters.silence import descriptors_to
from onnxlab.language import tr

# The messages of both exporters on every call, whatever the model: category, start of the message, module.
_NOISE: tuple[tuple[type[Warning], str, str], ...] = (
    (DeprecationWarning, r"You are using the legacy TorchScript-based ONNX export", r""),  # of the caller
    (DeprecationWarning, r"The feature will be removed\. Please remove usage of this", r"torch\.onnx\."),
    (DeprecationWarning, r"`torch\.jit\.\w+` is deprecated", r"torch\.jit\."),
    (FutureWarning, r"`torch\.jit\.\w+` is deprecated", r"torch\.jit\."),  # the same since torch 2.14
    (FutureWarning, r"`isinstance\(treespec, LeafSpec\)` is deprecated", r"(copyreg|copy|torch\.)"),
    (RuntimeWarning, r"Guards may run slower on Python 3\.13\.0", r"torch\._dynamo"),
)
_WIDTH = 160
_SHOWN_BEFORE = 40  # characters before the required text, where a long line is shortened around it
_TORCHVISION_LOGGER = "torch.onnx._internal.exporter._registration"


def quiet_exporters() -> None:
    """Hide the messages that the exporters give on every call, and nothing else.

    Hidden: the notices that TorchScript is deprecated, the log lines about a missing torchvision, and
    notices about a class that the torch.export exporter uses internally and about the speed of its guards on
    Python 3.13.0. A TracerWarning or a UserWarning still shows.
    """
    for category, message, module in _NOISE:
        warnings.filterwarnings("ignore", message, category, module)
    logger = logging.getLogger(_TORCHVISION_LOGGER)
    if _not_torchvision not in logger.filters:
        logger.addFilter(_not_torchvision)


@contextmanager
def expect_error(error: type[BaseException], text: str, *, lines: int = 2) -> Iterator[None]:
    """Require that the block fails in one certain way, and show how.

    Args:
        error: The class of the error, or of one of the errors that caused it.
        text: Words that its message, or the message of one of its causes, must contain.
        lines: How many lines of the message to print; the line with `text` is one of them.

    Raises:
        ClaimBroken: The block did not fail, or it failed otherwise.

    >>> with expect_error(ZeroDivisionError, "division by zero"):
    ...     1 / 0
    ZeroDivisionError: division by zero
    """
    try:
        with _quiet_failure():
            yield
    except (KeyboardInterrupt, GeneratorExit):  # the learner pressed stop: never a result
        raise
    except BaseException as caught:
        errors = chain(caught)
        if not any(isinstance(e, error) for e in errors):
            raise ClaimBroken(
                "{name} was expected, but {raised_name} was raised.",
                *plain_lines(caught, 1),
                name=error.__name__,
                raised_name=type(caught).__name__,
            ) from caught
        # An outer error often quotes its cause's text; the cause says it in the fewest words.
        matching_error = next((e for e in reversed(errors) if text in str(e)), None)
        if matching_error is None:
            raise ClaimBroken(
                "{name} was raised, but its message does not contain {words!r}.",
                *plain_lines(caught, 1),
                name=error.__name__,
                words=text,
            ) from caught
        head = type(matching_error).__name__
        if matching_error is not caught:
            _print_headed(type(caught).__name__, plain_lines(caught, 1))
            head = tr("  caused by {name}", name=head)
        _print_headed(head, plain_lines(matching_error, lines, text))
    else:
        raise ClaimBroken(
            "{name} was expected, but the cell ran without an error.",
            "",
            "What this chapter says here is no longer true: please report it.",
            name=error.__name__,
        )


@contextmanager
def expect_warning(category: type[Warning], text: str, *, lines: int = 1) -> Iterator[None]:
    """Require that the block gives one certain warning, show it, and count the others in one line.

    Args:
        category: The class of the warning.
        text: Words that its message must contain.
        lines: How many lines of the message to print; the line with `text` is one of them.

    Raises:
        ClaimBroken: The block did not give the warning.

    >>> with expect_warning(UserWarning, "axis"):
    ...     warnings.warn("axis 2 is ignored", UserWarning)
    UserWarning: axis 2 is ignored
    """
    with warnings.catch_warnings(record=True) as caught:
        # Only the expected one is forced to show; the others come or stay away as they would for the learner.
        warnings.filterwarnings("always", f"(?s:.*){re.escape(text)}", category)
        yield
    matches = [w for w in caught if issubclass(w.category, category) and text in str(w.message)]
    others = [w for w in caught if w not in matches and not _is_noise(w)]
    if not matches:
        categories = ", ".join(sorted({w.category.__name__ for w in others})) or "none"
        raise ClaimBroken(
            "{name} with {words!r} was expected, but the cell did not give it.",
            "Warnings given instead: {categories}.",
            name=category.__name__,
            words=text,
            categories=categories,
        )
    name = matches[0].category.__name__
    head = tr("{name} ({count} times)", name=name, count=len(matches)) if len(matches) > 1 else name
    _print_headed(head, plain_lines(matches[0].message, lines, text))
    if others:
        ending = "warning" if len(others) == 1 else "warnings"
        print(tr("({count} more {ending} not shown)", count=len(others), ending=ending))


def plain_lines(message: object, count: int, around: str = "") -> list[str]:
    r"""The first lines of a message, or those up to a text, without what differs between machines.

    Colour codes, object addresses and the folders of absolute paths are removed. A long line is shortened so
    that the text stays. Where the last line announces "Next steps:" that are not shown, the announcement is
    removed too.

    >>> message = f"\x1b[31mbad\x1b[0m <Graph object at 0x7f01ab> in {tempfile.gettempdir()}/a1b2/m.onnx"
    >>> plain_lines(message, 1)
    ['bad <Graph object> in .../m.onnx']
    """
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(message))
    text = re.sub(r"(?<=\w) at 0x[0-9a-fA-F]+", "", text)
    text = re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x...", text)
    text = re.sub(r"\S*[\\/]ipykernel_\d+[\\/]\d+\.py", "<cell>", text)
    text = re.sub(r"(?:[A-Za-z]:)?[\\/][\w.\\/-]*[\\/](?=[\w-]+\.(?:cc|cpp|h)\b)", ".../", text)
    for root in _machine_folders():
        text = re.sub(re.escape(root) + r"[\\/](?:[^\s\\/'\":,;<>]+[\\/])*", ".../", text)
    rows = [row.rstrip() for row in text.splitlines() if row.strip()]
    line = next((number for number, row in enumerate(rows) if around in row), 0)
    first = max(0, line - count + 1)
    rows = [_shortened(row, around if around in row else "") for row in rows[first : first + count]]
    if rows:
        rows[-1] = re.sub(r"\s*Next steps:$", "", rows[-1])
    return rows[:-1] if rows and not rows[-1] else rows


@contextmanager
def _quiet_failure() -> Iterator[None]:
    """Hide what a failing export or run writes besides its error: log lines and half-made graphs."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        # C++ code writes to the descriptors: torch dumps its graph to stdout, ONNX Runtime logs to stderr.
        with (
            open(os.devnull, "wb") as nowhere,  # noqa: PTH123 - os.devnull is a text
            descriptors_to(nowhere),
            redirect_stderr(io.StringIO()),
        ):
            yield
    finally:
        logging.disable(before)


def _shortened(row: str, around: str) -> str:
    """The part of a line that fits: its start, or the part around a text that its start does not contain."""
    if len(row) > _WIDTH and around not in row[: _WIDTH - 3]:
        start = min(row.find(around) - _SHOWN_BEFORE, len(row) - _WIDTH + 3)
        row = "..." + row[max(0, start) :].lstrip()
    return row if len(row) <= _WIDTH else row[: _WIDTH - 3].rstrip() + "..."


def _print_headed(head: str, rows: list[str]) -> None:
    print(": ".join([head, *rows[:1]]), *(f"  {row.strip()}" for row in rows[1:]), sep="\n")


def _is_noise(warning: warnings.WarningMessage) -> bool:
    text = str(warning.message)
    return any(issubclass(warning.category, kind) and re.match(start, text) for kind, start, _ in _NOISE)


def _not_torchvision(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("torchvision is not installed")


def _machine_folders() -> list[str]:
    """Folders whose names say where this machine keeps things, the longest first."""
    folders = {
        tempfile.gettempdir(),
        str(Path.home()),
        str(Path.cwd()),
        sys.prefix,
        sys.base_prefix,
        *site.getsitepackages(),
    }
    folders |= {os.path.realpath(f) for f in folders}
    return sorted((f for f in folders if len(f) > 1), key=len, reverse=True)
