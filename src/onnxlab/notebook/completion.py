"""`completion()`: decoders continue a text token by token; the saved notebook keeps one finished text."""

import html
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from onnxlab.language import GRAPH_NAMES, tr
from onnxlab.message import Message
from onnxlab.model.load import ModelLike
from onnxlab.notebook.outputs import display_saved_and_live, hiding_css
from onnxlab.runtime.session import open_session

PAUSE = 0.03  # seconds after each token, so that an eye can follow

_STYLE = f"""<style>{hiding_css("onnxlab-completion")}
.onnxlab-completion {{ display: flex; flex-wrap: wrap; gap: 8px 24px; align-items: flex-start; }}
.onnxlab-completion figure {{ flex: 1 1 240px; margin: 4px 0; }}
.onnxlab-completion figcaption {{ font-weight: 600; }}
.onnxlab-completion pre {{ white-space: pre-wrap; margin: 4px 0; padding: 6px 10px; color: inherit;
  border: 1px solid rgba(128, 128, 128, .35); background: none; }}
.onnxlab-completion i {{ display: block; height: 8px; margin: 2px 0; background: #3b82f6; }}
.onnxlab-completion p {{ flex-basis: 100%; margin: 4px 0; }}
</style>"""


@dataclass(frozen=True)
class State:
    """A decoder's state after a step that read some tokens: the text so far, and the cache's arrays.

    Attributes:
        arrays: How many there are, all of one shape.
        refusal: Why there is no next token, in one line; empty while there is one.
    """

    text: str
    read: int = 0
    arrays: int = 0
    shape: tuple[int, ...] = ()
    refusal: str = ""

    def __str__(self) -> str:
        if self.refusal:
            return tr("refused: {refusal}", refusal=self.refusal)
        tokens = tr("1 token" if self.read == 1 else Message("{read} tokens", read=self.read))
        return tr(
            "last step: {tokens} in; cache: {arrays} x {shape}",
            tokens=tokens,
            arrays=self.arrays,
            shape=self.shape,
        )


def completion(files: Mapping[str, ModelLike], prompt: str = "Jabberwocky", count: int = 60) -> None:
    """Show a text box, and how each decoder continues what is typed there.

    The saved notebook holds their texts for the first prompt.

    Args:
        files: Names for decoders in ONNX whose tokens are bytes. The first input is the tokens (batch, new),
            the first output the scores (batch, new, 256). The other inputs are a cache of arrays (batch,
            heads, past, size), the other outputs the same cache after the new tokens, in the same order.
        prompt: The first text.
        count: How many tokens to write.
    """
    sessions = {name: open_session(model) for name, model in files.items()}
    box = ipywidgets.Text(value=prompt, description=tr("Begin with"), continuous_update=False)
    view = ipywidgets.HTML()

    def write(change: Mapping[str, str]) -> None:
        prompt = change["new"]
        for states in _step_together([_states(session, prompt, count) for session in sessions.values()]):
            view.value = _markup("live", dict(zip(sessions, states, strict=True)), prompt)
            time.sleep(PAUSE)

    box.observe(write, "value")
    last = {name: _final_state(session, prompt, count) for name, session in sessions.items()}
    view.value = _markup("live", last, prompt)
    here = tr("With a running kernel, a box to type another beginning stands in this place.")
    hint = f"<p><em>{html.escape(here)}</em></p>"
    text = "\n\n".join(f"{name}:\n{state.text}\n({state})" for name, state in last.items())
    display_saved_and_live(
        _STYLE + _markup("saved", last, prompt, hint),
        text,
        ipywidgets.VBox([box, view]),
        hides=".onnxlab-completion.saved",
    )


def _states(session: Any, prompt: str, count: int) -> Iterator[State]:  # noqa: ANN401 - ONNX Runtime ships no types
    """Continue a text; the first step gets all of it, each later one the token before."""
    tokens, *past = session.get_inputs()
    text = prompt.encode()
    if not text:
        yield State("", refusal="there is nothing to continue; type at least one character")
        return
    new = np.array([list(text)], np.int64)
    arrays = [np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32) for value in past]
    for _ in range(count):
        names = [tokens.name, *(value.name for value in past)]
        try:
            scores, *arrays = session.run(None, dict(zip(names, [new, *arrays], strict=True)))
        except Exception as error:  # ONNX Runtime's errors have no common class of their own
            yield State(text.decode(errors="replace"), refusal=str(error).splitlines()[0])
            return
        read, new = new.shape[1], scores[:, -1:].argmax(-1)
        text += bytes([int(new[0, 0])])
        yield State(text.decode(errors="replace"), read, len(arrays), arrays[0].shape)


def _step_together(decoders: list[Iterator[State]]) -> Iterator[list[State]]:
    """All states after each step; a decoder that has ended keeps its last one."""
    states = [next(steps) for steps in decoders]
    yield states
    while True:
        after = [next(steps, state) for steps, state in zip(decoders, states, strict=True)]
        if all(new is old for new, old in zip(after, states, strict=True)):
            return
        states = after
        yield states


def _final_state(session: Any, prompt: str, count: int) -> State:  # noqa: ANN401 - as above
    *_, last = _states(session, prompt, count)
    return last


def _markup(form: str, states: Mapping[str, State], prompt: str, hint: str = "") -> str:
    figures = ""
    for name, state in states.items():
        begin, rest = (html.escape(part) for part in (prompt, state.text[len(prompt) :]))
        bar = f'<i style="width: {state.shape[2]}px; max-width: 100%"></i>' if state.shape else ""
        title = html.escape(tr(name, GRAPH_NAMES))
        figures += (
            f"<figure><figcaption>{title}</figcaption><pre><b>{begin}</b>{rest}</pre>"
            f"<div>{html.escape(str(state))}</div>{bar}</figure>"
        )
    return f'<div class="onnxlab-completion {form}">{figures}{hint}</div>'
