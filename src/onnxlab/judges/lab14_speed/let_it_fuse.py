"""What is right in let-it-fuse, part by part."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence, opsets, require_interface, require_same_numbers, require_well_formed
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab14_speed.let_it_fuse import ASKS, CHANNELS, OPSET, REASONS, FusionQuestion
from onnxlab.message import Message
from onnxlab.model.graph import walk
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

_FUSED = ("com.microsoft::Gelu", "com.microsoft::FusedConv")
_LEFT = ("BatchNormalization", "Erf", "Relu")  # what the fusions take away


def let_it_fuse(model: onnx.ModelProto, needed: list[str]) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    graph = model.graph
    for value in [value for value in graph.output if value.name not in needed]:
        graph.output.remove(value)
    weights = {tensor.name for tensor in graph.initializer}
    for value in [value for value in graph.input if value.name in weights]:
        graph.input.remove(value)
    makers = {name: node for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in node.input] + needed

    def made_from(name: str, operator: str) -> list[str]:
        """Return the inputs of the node that makes a value, if it is of this operator."""
        node = makers.get(name)
        return list(node.input) if node is not None and node.op_type == operator else []

    for last in graph.node:
        for i, inner in enumerate(last.input if last.op_type == "Mul" else []):
            for j, grown in enumerate(made_from(inner, "Mul")):
                ratios = [ratio for part in made_from(grown, "Add") for ratio in made_from(part, "Erf")]
                xs = [made_from(ratio, "Div")[0] for ratio in ratios]
                if xs == [last.input[1 - i]] and read.count(inner) == 1:  # inner is half * grown
                    first = makers[inner]
                    first.input[1 - j], last.input[1 - i] = last.input[1 - i], first.input[1 - j]
    return model


def _operators(model: onnx.ModelProto) -> Counter[str]:
    """Count the operators of the graph that ONNX Runtime makes of a model at the level EXTENDED."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        path = Path(folder, "optimised.onnx")
        options.optimized_model_filepath = str(path)
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Counter(node.op for node in walk(onnx.load(path)))


def _require_structure(model: onnx.ModelProto, question: FusionQuestion) -> None:
    """Require a valid model of standard operators, with the inputs and the needed outputs."""
    require_interface(model, question.inputs, list(question.needed), question.where)
    require_well_formed(model, question.where)
    given = {node.domain for node in question.model.graph.node}
    other = [node.op_type for node in model.graph.node if node.domain not in given]
    if other or model.functions or opsets(model) != {OPSET}:
        what = ", ".join(other) or (
            Message("a function")
            if model.functions
            else Message("opset {max_opsets_model}", max_opsets_model=max(opsets(model)))
        )
        msg = Message(
            "{question.where}: the file has {subject}; it should have standard operators of opset {opset}.",
            question=question,
            subject=what,
            opset=OPSET,
        )
        look_at = "The runtime fuses by itself: the file is for other runtimes, too."
        raise Wrong(msg, look_at, evidence=evidence(model, None, *other))


def _require_numbers(model: onnx.ModelProto, question: FusionQuestion, random: np.random.Generator) -> None:
    """Require the outputs of the given model, at several sizes."""
    original = open_session(question.model, optimize=False)
    for shape in ((1, 1, 2), (2, 3, 1), tuple(random.integers(2, 7, 3).tolist())):
        arrays = [random.normal(size=(shape[0], CHANNELS, *shape[1:])), random.normal(size=1)]
        feeds = dict(zip(question.inputs, (array.astype(np.float32) for array in arrays), strict=True))
        right = original.run(list(question.needed), feeds)
        require_same_numbers(model, feeds, right, question.where, question.look_at)


def _require_fused(model: onnx.ModelProto, question: FusionQuestion, random: np.random.Generator) -> None:
    """Require the fused operators of a right answer, and nothing left that they replace."""
    right = _operators(made_by(let_it_fuse)(question))
    try:
        got = _operators(model)
    except Exception as error:  # the runtime raises many kinds
        msg = Message(
            "{question.where}: ONNX Runtime does not load the result: {reason}",
            question=question,
            reason=short_reason(error),
        )
        raise Wrong(msg, question.look_at, evidence=evidence(model)) from None
    missed = [name for name in _FUSED if got[name] < right[name]]
    left = [name for name in _LEFT if got[name] > right[name]]
    if missed or left:
        texts = [", ".join(f"{count} x {name}" for name, count in part.items()) for part in (right, got)]
        difference = Difference(Message("operators of the optimised graph"), *texts)
        names = " and ".join(name.rpartition(":")[2] for name in left or missed)
        msg = Message(
            "{question.where}: ONNX Runtime still misses a fusion: its graph has {names}.",
            question=question,
            names=names,
        )
        if not left:
            msg = Message(
                "{question.where}: ONNX Runtime's graph has too few {names}.", question=question, names=names
            )
        raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(model, None, *left))


def _where(reason: str) -> Callable[[onnx.ModelProto, FusionQuestion, np.random.Generator], None]:
    """Return what requires everything, of the models whose fusions are missed for one reason."""

    def require(model: onnx.ModelProto, question: FusionQuestion, random: np.random.Generator) -> None:
        if question.reason == reason:
            _require_structure(model, question)
            _require_numbers(model, question, random)
            _require_fused(model, question, random)

    return require


_REWRITING = Rewritten(ASKS, lambda model, question: None, made_by(let_it_fuse))
JUDGES = Judges(tuple(_REWRITING.judge(_where(reason)) for reason in REASONS))
