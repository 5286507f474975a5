"""What is right in cut-between, part by part."""

import numpy as np
import onnx
from onnx import helper

from onnxlab.kit import judging
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.kit.work import Work
from onnxlab.labs.lab08_graph_surgery.cut_between import ASKS, WIDTH, Cut
from onnxlab.message import Message
from onnxlab.model.graph import reads, subgraphs, walk
from onnxlab.runtime.divergence import intermediates

_ELEMENTS = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}


def _require_structure(part: onnx.ModelProto, question: Cut) -> None:
    """Require a valid model with the requested inputs and outputs, and the original's opset."""
    judging.require_interface(part, question.inputs, question.outputs, question.where)
    _require_types(part, question)
    _require_versions(part, question)
    judging.require_well_formed(part, question.where)
    judging.require_no_new_operators(part, question.model, question.where)


def _require_numbers(part: onnx.ModelProto, question: Cut, random: np.random.Generator) -> None:
    """Feed values from inside the original model, and require what it computes from them."""
    for rows in (1, 5):
        x = random.normal(size=(rows, WIDTH)).astype(np.float32)
        values = {question.name: x, **intermediates(question.model, x)}
        judging.require_same_numbers(
            part,
            {name: values[name] for name in question.inputs},
            [values[name] for name in question.outputs],
            question.where,
            "Compare graph(before, after). Is a size in the shape of the new input fixed?",
        )


def _require_nothing_else(part: onnx.ModelProto, question: Cut, random: np.random.Generator) -> None:
    """Require that every node and every weight is read."""
    bodies = [body for node in walk(part) for _, body in subgraphs(node.proto)]
    read = {name for node in walk(part) for name in node.inputs}
    read |= {output.name for graph in (part.graph, *bodies) for output in graph.output}
    idle = [node.op_type for node in part.graph.node if not read & set(node.output)]
    unread = [weight.name for weight in part.graph.initializer if weight.name not in read]
    if idle or unread:
        what = (
            Message("a {idle} whose result nothing reads", idle=idle[0])
            if idle
            else Message("the initializer {unread}, never read", unread=unread[0])
        )
        msg = Message("{question.where}: the part still has {subject}.", question=question, subject=what)
        look_at = "Walk back from the outputs, and keep what you meet."
        raise Wrong(msg, look_at, evidence=judging.evidence(part, None, *idle))


def _judge_refusals(work: Work, random: np.random.Generator) -> None:
    """Require a ValueError for each cut that is not possible."""
    for _, question, got in _REWRITING.not_refused(work):
        difference = Difference(
            Message("cut_between(model, {question.inputs}, {question.outputs})", question=question),
            Message("ValueError"),
            Message("{got} was raised", got=got[:80]),
        )
        msg = Message("{question.where}: this cannot be cut.", question=question)
        look_at = "Where does the walk back from the outputs end, besides at the inputs asked for?"
        with question.as_case():
            raise Wrong(msg, look_at, difference=difference, evidence=judging.evidence(question.model))


def _require_types(part: onnx.ModelProto, question: Cut) -> None:
    """Require the element types and shapes of inputs and outputs; dynamic axes stay dynamic."""
    expected = cut_between(*question.copies())
    weights = {weight.name for weight in part.graph.initializer}
    for kind in ("input", "output"):
        # Older models list their weights among the inputs as well.
        values = [
            value for value in getattr(part.graph, kind) if value.name not in weights or kind == "output"
        ]
        for expected_value, got in zip(getattr(expected.graph, kind), values, strict=True):
            if _type_and_sizes(expected_value) != _type_and_sizes(got):
                difference = Difference(
                    Message("the {kind} {expected_value.name}", kind=kind, expected_value=expected_value),
                    _type_text(expected_value),
                    _type_text(got),
                )
                msg = Message(
                    "{question.where}: the {kind} {expected_value.name} has another type.",
                    question=question,
                    kind=kind,
                    expected_value=expected_value,
                )
                look_at = (
                    "infer_shapes() writes element types and shapes into value_info. "
                    "Is a size in the shape fixed that is open there, as N?"
                )
                raise Wrong(msg, look_at, difference=difference, evidence=judging.evidence(part))


def _type_and_sizes(value: onnx.ValueInfoProto) -> tuple[int, list[int | None] | None]:
    """Return the element type and the shape of a value, without the names of dynamic axes."""
    tensor = value.type.tensor_type
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return tensor.elem_type, sizes if tensor.HasField("shape") else None


def _type_text(value: onnx.ValueInfoProto) -> str:
    if not value.type.HasField("tensor_type"):
        return Message("no type")
    tensor = value.type.tensor_type
    element = _ELEMENTS.get(tensor.elem_type, Message("another type"))
    if not tensor.HasField("shape"):
        return Message("{element} without a shape", element=element)
    sizes = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim
    ]
    return f"{element}[{', '.join(sizes)}]"


def _require_versions(part: onnx.ModelProto, question: Cut) -> None:
    """Require the IR version of the original model, and the opset of each domain that the part uses."""
    original = question.model
    opsets = [
        {entry.domain or "": entry.version for entry in model.opset_import} for model in (original, part)
    ]
    used = sorted({"", *(node.proto.domain for node in walk(part))} & opsets[0].keys())
    for what, expected_names, got in (
        *((f"opset {name}".strip(), opsets[0][name], opsets[1].get(name)) for name in used),
        (Message("IR version"), original.ir_version, part.ir_version),
    ):
        if expected_names != got:
            msg = Message(
                "{question.where}: the part says {subject} {got}; "
                "the model it is cut from says {expected_names}.",
                question=question,
                subject=what,
                got=got,
                expected_names=expected_names,
            )
            look_at = (
                "helper.make_model accepts opset_imports, with an entry for each domain, and ir_version; "
                "left out, they are the newest."
            )
            raise Wrong(msg, look_at, evidence=judging.evidence(part))


def cut_between(model: onnx.ModelProto, inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions.

    `onnx.utils.Extractor` does not see what the branches of an If read from the graph around them.
    """
    graph = onnx.shape_inference.infer_shapes(model).graph
    needed, read = set(outputs) - set(inputs), set()
    nodes = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            read.update(reads(node))
            needed = (needed - set(node.output)).union(reads(node)) - set(inputs)
    constants = [tensor for tensor in graph.initializer if tensor.name in read]
    values = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    missing = (needed - {tensor.name for tensor in constants}) | ({*inputs, *outputs} - set(values))
    if missing:
        raise ValueError(f"not made from {inputs}: {missing}")
    ends = [[values[name] for name in names] for names in (inputs, outputs)]
    part = helper.make_graph(nodes[::-1], "part", ends[0], ends[1], constants)
    return helper.make_model(part, ir_version=model.ir_version, opset_imports=model.opset_import)


_REWRITING = Rewritten(ASKS, _require_structure, made_by(cut_between))
JUDGES = _REWRITING.judges(_require_numbers, _require_nothing_else, refusals=_judge_refusals)
