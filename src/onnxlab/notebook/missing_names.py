"""A name of the course that a new kernel does not know yet: a plain sentence in place of a traceback."""

from types import TracebackType
from typing import Any

from IPython.core.getipython import get_ipython

import onnxlab
from onnxlab.language import chosen_language, speaking, speech, tr


def explain_missing_names() -> None:
    """From now on, say what to run where a cell uses a name of the course before the cell that imports it."""
    shell = get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError,), _explain)


def _explain(
    shell: Any,  # noqa: ANN401 - IPython ships no types
    kind: type[BaseException],
    error: NameError,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    name = error.name
    if kind is not NameError or name not in vars(onnxlab)["__all__"] or name in shell.user_ns:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return
    with speaking(speech(chosen_language()[0])):  # no cell has chosen a language yet
        print(tr("{name} is not defined: since this kernel started, no cell has imported it.", name=name))
        print(tr("Run the cells above first: in the menu, Run > Run All Above Selected Cell."))
