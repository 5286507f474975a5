"""Texts read in pieces, and what a model with a cache must return for each piece."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.judging import UNLIKE, evidence, first_mismatch
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import dims
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session


def require_shape(model: onnx.ModelProto, name: str, axes: Sequence[int | None]) -> None:
    """Require that an input's axis is dynamic for each None, and otherwise of this size."""
    shape = dims(model, name) or ()
    shown_shape = f"[{', '.join(map(str, shape))}]"
    shown = evidence(model)
    if len(shape) != len(axes):
        msg = Message(
            "{name} has the shape {shown_shape}; {count} axes were expected.",
            name=name,
            shown_shape=shown_shape,
            count=len(axes),
        )
        raise Wrong(msg, "Compare with the runner's arrays.", evidence=shown)
    for axis, (size, label) in enumerate(zip(axes, shape, strict=True)):
        if size is None and isinstance(label, int):
            msg = Message(
                "Axis {axis} of {name} is fixed: its shape is {shown_shape}. The runner passes other sizes.",
                axis=axis,
                name=name,
                shown_shape=shown_shape,
            )
            raise Wrong(msg, "Look at the argument that names the dynamic axes.", evidence=shown)
        if size is not None and label != size:
            difference = Difference(
                Message("axis {axis} of {name}", axis=axis, name=name), str(size), str(label)
            )
            msg = Message(
                "Axis {axis} of {name} is {label!r}; the runner needs {size} there, to make an empty cache.",
                axis=axis,
                name=name,
                label=label,
                size=size,
            )
            look_at = "Only what changes from run to run has to be dynamic."
            raise Wrong(msg, look_at, difference=difference, evidence=shown)


def require_read(
    model: onnx.ModelProto,
    reading: Reading,
    expected: Mapping[str, Array],
    caches: Mapping[str, str],
    advice: Mapping[str, str],
    *,
    ids: str = "ids",
    where: str,
    session: ort.InferenceSession | None = None,
) -> None:
    """Require that a model returns for the pieces of a text what one without a cache returns for all of it.

    Args:
        model: The model.
        reading: The text and its pieces.
        expected: The outputs for the whole text, by name: the caches, and one other, the logits.
        caches: The output that holds a cache, by the name of the input that takes it.
        advice: Where to look, as `ADVICE`; `shape`, if there, is for outputs of another size.
        ids: The name of the input for the tokens.
        where: The model, for messages.
        session: A session of the model, for several texts.

    Raises:
        Wrong: For the first piece whose outputs are wrong.
    """
    where = Message.compose(", ", [where, reading.where])
    session, outputs = session or open_session(model), list(expected)
    cache = {name: expected[output][:, :, :0] for name, output in caches.items()}
    for begin, end in reading.pieces():
        try:
            arrays = session.run(outputs, {ids: reading.ids[:, begin:end], **cache})
            got = dict(zip(outputs, map(np.asarray, arrays), strict=True))  # a sequence may be no array
        except Exception as error:  # the runtime raises many kinds
            difference = Difference(
                reading.describe(begin, end), Message("logits and a cache"), Message("an error")
            )
            msg = Message("{where}: ONNX Runtime stops: {reason}", where=where, reason=short_reason(error))
            raise Wrong(msg, advice["stop"], difference=difference, evidence=evidence(model)) from None
        try:
            require_piece(got, reading, (begin, end), expected, caches, advice, where=where)
        except Wrong as wrong:
            wrong.evidence = evidence(model)
            raise
        cache = {name: got[output] for name, output in caches.items()}


def require_piece(
    got: Mapping[str, Array],
    reading: Reading,
    piece: tuple[int, int],
    expected: Mapping[str, Array],
    caches: Mapping[str, str],
    advice: Mapping[str, str] = ADVICE,
    *,
    where: str,
) -> None:
    """Require the outputs for one piece: the logits of its tokens, and the caches up to its end."""
    begin, end = piece
    for name, text_output in expected.items():
        is_cache = name in caches.values()
        expected_piece = text_output[:, :, :end] if is_cache else text_output[:, begin:end]
        kinds = ("alone", "first") if not begin else ("one", "several")
        kind = kinds[end - begin > 1]
        look_at = advice["cache" if is_cache else kind]
        case, actual = reading.describe(begin, end), got[name]
        if actual.dtype != expected_piece.dtype or actual.shape != expected_piece.shape:
            descriptions = [f"{array.dtype}{list(array.shape)}" for array in (expected_piece, actual)]
            msg = Message("{where}: {name} has another shape or type than it should.", where=where, name=name)
            if actual.dtype != expected_piece.dtype:
                look_at = UNLIKE["type"][1]
            elif actual.ndim == expected_piece.ndim:  # with other axes, it is another output
                look_at = advice.get("shape", look_at)
            raise Wrong(
                msg, look_at, difference=Difference(Message.compose("; ", [case, name]), *descriptions)
            )
        place = first_mismatch(expected_piece, actual)
        if place is not None:
            numbers = f"{expected_piece[place]:.5g}", f"{actual[place]:.5g}"
            msg = Message(
                "{where}: {name} {ending} other numbers than without a cache.",
                where=where,
                name=name,
                ending="holds" if is_cache else "has",
            )
            difference = Difference(
                Message("{case}; element {place} of output {name}", case=case, place=list(place), name=name),
                *numbers,
            )
            raise Wrong(msg, look_at, difference=difference)
