"""`doctor(model)` in a notebook: what is wrong or risky in a model, as a table."""

from pathlib import Path

from onnxlab.diagnosis.examination import examine
from onnxlab.message import Message
from onnxlab.model.load import ModelLike
from onnxlab.tables import Table


def doctor(
    model: ModelLike, *, reference: str = "", inputs: str | Path | None = None, seconds: float = 60.0
) -> Table:
    """Look for what is wrong or risky in a model.

    Args:
        model: A path, bytes, an onnx.ModelProto, a torch.onnx.ONNXProgram or an Export.
        reference: "package.module:factory", whose result (module, inputs) the model is compared with.
        inputs: Values to run it with: an .npz file, or a folder of .npy files.
        seconds: How long loading and running may take.

    Returns:
        A table, the worst first: wrong (it fails, or its outputs cannot be trusted), risk, note.

    Raises:
        ModelNotReadable: If it is not an ONNX model.
    """
    found = examine(
        model, reference=reference, inputs=None if inputs is None else Path(inputs), seconds=seconds
    )
    columns = ("severity", "what", "why", "what to do", "section")
    rows = tuple((s.severity, s.what, s.why, s.then, s.explained) for s in found.symptoms)
    caption = Message.compose(". ", [found.subject, found.verdict('reference="net.py:factory"')])
    return Table(columns, rows, caption, bad=("wrong",))
