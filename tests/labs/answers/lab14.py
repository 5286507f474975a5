"""Right and wrong answers for lab 14."""

import tempfile
from functools import partial
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import helper, version_converter

from tests.support.answer_parts import replace_nodes
from tests.support.labs import Contract, WrongAnswer, solution

options = partial(solution, "container-options")
fuse = partial(solution, "let-it-fuse")


def chosen(limits, allowed, sessions):
    """The options from fractions that are rounded down at the end."""
    quotas = [line.split() for line in limits]
    cpus = [float(quota) / float(period) for quota, period in quotas if quota != "max"] + [len(allowed)]
    result = ort.SessionOptions()
    result.add_session_config_entry("session.intra_op.allow_spinning", "0")
    result.inter_op_num_threads = 1
    result.intra_op_num_threads = int(max(1, min(cpus) / sessions))
    return result


def counted_upwards(limits, allowed, sessions):
    result = options()[0](limits, allowed, sessions)
    threads = 1
    while all(
        text.startswith("max") or int(text.split()[0]) >= (threads + 1) * sessions * int(text.split()[1])
        for text in limits
    ) and (threads + 1) * sessions <= len(allowed):
        threads += 1
    result.intra_op_num_threads = threads
    return result


def half_of_x(model, needed):
    """The half goes to x: (half * x) * grown."""
    model = fuse({EXCHANGE: "pass"})[0](model, needed)
    makers = {name: node for node in model.graph.node for name in node.output}
    readers = [name for node in model.graph.node for name in node.input] + needed
    for erf in [node for node in model.graph.node if node.op_type == "Erf"]:
        x = makers[erf.input[0]].input[0]
        [add] = [node for node in model.graph.node if erf.output[0] in node.input]
        grown = add.output[0]
        [first] = [node for node in model.graph.node if grown in node.input]
        lasts = [node for node in model.graph.node if first.output[0] in node.input]
        if x in first.input or readers.count(first.output[0]) > 1:
            continue
        [last] = lasts
        [half] = [name for name in first.input if name != grown]
        first.input[:], last.input[:] = [half, x], [first.output[0], grown]
    return model


def rebuilt(model, needed):
    """A new model with new lists."""
    model = fuse()[0](model, needed)
    graph = helper.make_graph(
        [*model.graph.node],
        "rebuilt",
        [*model.graph.input],
        [*model.graph.output],
        [*model.graph.initializer],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[*model.opset_import])


def without_unread(model, needed):
    """Drops the nodes that no output needs, and then the inputs that no node reads."""
    model = fuse()[0](model, needed)
    read, nodes = {value.name for value in model.graph.output}, []
    for node in reversed(model.graph.node):
        if read.intersection(node.output):
            nodes.insert(0, node)
            read.update(node.input)
    replace_nodes(model.graph, nodes)
    for value in [value for value in model.graph.input if value.name not in read]:
        model.graph.input.remove(value)
    return model


def newer_operator(model, needed):
    """Opset 20."""
    return version_converter.convert_version(fuse()[0](model, needed), 20)


def without_constants(model, needed):
    """The runtime's own optimised graph is handed in."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = 1, 4
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        settings.optimized_model_filepath = str(Path(folder, "o.onnx"))
        made = fuse()[0](model, needed).SerializeToString()
        ort.InferenceSession(made, settings, providers=["CPUExecutionProvider"])
        return onnx.load(settings.optimized_model_filepath)


LISTED = "[value for value in graph.input if value.name in weights]"
EXCHANGE = "first.input[1 - j], last.input[1 - i] = last.input[1 - i], first.input[1 - j]"
ALONE = " and read.count(inner) == 1"

CONTRACTS = {
    "container-options": Contract(
        right=(options(), (chosen,), (counted_upwards,)),
        wrong=(
            WrongAnswer("turns the quotas round", options({"cpus = len(allowed)": "cpus = len(allowed)\n    limits.reverse()"}), "An argument was changed by the call"),
            WrongAnswer("rounded up", options({"int(quota) // int(period)": "-(-int(quota) // int(period))"}), "A quota with a part of a CPU"),
            WrongAnswer("the first quota only", options({"map(str.split, limits)": "map(str.split, limits[:1])"}), "The group above has the smaller quota"),
            WrongAnswer("no affinity", options({"cpus = len(allowed)": "cpus = 10**6"}), "no container here has 64 CPUs"),
            WrongAnswer("at least one before the division", options({"max(1, cpus // sessions)": "max(1, cpus) // sessions"}), "At least 1 is asked for"),
            WrongAnswer("the default between operators", options({"options.inter_op_num_threads = 1": "pass"}), "inter_op_num_threads is 0; 1 was expected"),
            WrongAnswer("spinning", options({'options.add_session_config_entry("session.intra_op.allow_spinning", "0")': "pass"}), "allow_spinning is not set; 0 was expected"),
            WrongAnswer("one object for all", options({"options = ort.SessionOptions()": "options = container_options.__dict__.setdefault('kept', ort.SessionOptions())"}), "the object of an earlier call"),
            WrongAnswer("both pools", options({"return options": 'options.add_session_config_entry("session.inter_op.allow_spinning", "0")\n    return options'}), "session.inter_op.allow_spinning is 0; not set was expected"),
            WrongAnswer("no optimisation", options({"options.inter_op_num_threads = 1": "options.inter_op_num_threads = 1; options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL"}), "Nobody asked for another setting"),
        ),
    ),
    "let-it-fuse": Contract(
        right=(fuse(), (half_of_x,), (rebuilt,)),
        wrong=(
            WrongAnswer("nothing is done", (lambda model, needed: model,), "outputs are not the ones asked for"),
            WrongAnswer("weights stay listed", fuse({LISTED: "[]"}), "A number that a caller may hand in is no constant"),
            WrongAnswer("the order stays", fuse({EXCHANGE: "pass"}), "In which order does the pattern that is fused multiply?"),
            WrongAnswer("the first GELU only", fuse({EXCHANGE: f"{EXCHANGE}; return model"}), "ONNX Runtime still misses a fusion"),
            WrongAnswer("other readers", fuse({ALONE: ""}), "Who else reads the value that you change"),
            WrongAnswer("callers do not count", fuse({" + needed": ""}), "The inner product of a GELU is needed"),
            WrongAnswer("opset 20", (newer_operator,), "the file has opset 20"),
            WrongAnswer("the optimised graph", (without_constants,), "it should have standard operators"),
            WrongAnswer("without inputs that nobody reads", (without_unread,), "inputs are not the ones asked for"),
            WrongAnswer("only what is read", fuse({LISTED: "[*graph.input][1:]"}), "inputs are not the ones asked for"),
        ),
    ),
}
