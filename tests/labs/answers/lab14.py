"""Right and wrong answers for lab 14."""

import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, version_converter

from tests.support.labs import Contract, WrongAnswer, solution

compare = partial(solution, "compare-fairly")
options = partial(solution, "container-options")
fuse = partial(solution, "let-it-fuse")

ROUND = "for k in (0, 1) if number % 2 else (1, 0):"
WARM = "for _ in range(3):"
MEDIAN = "float(np.median(ratios))"
RATIO = "spent[1] / spent[0]"


def by_pairs(first, second, inputs, clock):
    """Two rounds at a time, the second one the other way round."""

    def timed(call, x):
        start = clock()
        call(x)
        return clock() - start

    for call in (first, second) * 3:
        call(inputs[0])
    ratios = []
    for x, other in zip(inputs[::2], inputs[1::2], strict=True):
        one = timed(first, x)
        ratios.append(timed(second, x) / one)
        two = timed(second, other)
        ratios.append(two / timed(first, other))
    return median(ratios)


def with_three_stamps(first, second, inputs, clock):
    """One clock reading between the two calls of a round, and the inputs from the last."""
    [call(inputs[0]) for _ in range(3) for call in (second, first)]
    logarithms = []
    for number, x in enumerate(reversed(inputs)):
        calls = [first, second][:: -1 if number % 2 else 1]
        stamps = [clock()]
        for call in calls:
            call(x)
            stamps.append(clock())
        ratio = (stamps[2] - stamps[1]) / (stamps[1] - stamps[0])
        logarithms.append(1 / ratio if number % 2 else ratio)
    return np.median(np.array(logarithms))


def chosen(limits, allowed, sessions):
    """The options from fractions that are rounded down at the end."""
    quotas = [line.split() for line in limits]
    cpus = [float(quota) / float(period) for quota, period in quotas if quota != "max"] + [len(allowed)]
    result = ort.SessionOptions()
    result.add_session_config_entry("session.intra_op.allow_spinning", "0")
    result.inter_op_num_threads = 1
    result.intra_op_num_threads = int(max(1, min(cpus) / sessions))
    return result


def without_spinning(limits, allowed, sessions):
    """Both pools without spinning; counted upwards."""
    result = options()[0](limits, allowed, sessions)
    result.add_session_config_entry("session.inter_op.allow_spinning", "0")
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
    "compare-fairly": Contract(
        right=(compare(), (by_pairs,), (with_three_stamps,)),
        wrong=(
            WrongAnswer("no warm-up", compare({WARM: "for _ in ():"}), "was called 10 times; 13 were expected"),
            WrongAnswer("two calls to warm up", compare({WARM: "for _ in range(2):"}), "3 + 10 calls"),
            WrongAnswer("the warm-up is timed", compare({WARM: "for _ in ():", "enumerate(inputs)": "enumerate([inputs[0]] * 3 + inputs)"}), "slow first calls"),
            WrongAnswer("the last input to warm up", compare({"first(inputs[0])": "first(inputs[-1])"}), "was not warmed up with the first input"),
            WrongAnswer("first by second", compare({RATIO: "spent[0] / spent[1]"}), "Which of the two times is divided by which?"),
            WrongAnswer("one order", compare({ROUND: "for k in (0, 1):"}), "Who is second in each round"),
            WrongAnswer("one order, then the other", compare({"if number % 2": "if number < len(inputs) // 2"}), "Every second call of the first half"),
            WrongAnswer("the mean", compare({MEDIAN: "float(np.mean(ratios))"}), "What does one call that takes a hundred times as long"),
            WrongAnswer("ratio of the sums", compare({"ratios.append(spent[1] / spent[0])": "ratios.append(spent)", MEDIAN: "float(np.divide(*np.sum(ratios, 0)[::-1]))"}), "Five calls are disturbed"),
            WrongAnswer("another input for the second", compare({"(first, second)[k](x)": "(first, second)[k](x if k else inputs[-1 - number])"}), "Does the second get the same input"),
            WrongAnswer("the first input only", compare({"(first, second)[k](x)": "(first, second)[k](inputs[0])"}), "did not get each input once"),
            WrongAnswer("the wall clock", compare({"start = clock()": "clock = time.perf_counter; start = clock()", "for _ in range(3):": "import time\n    for _ in range(3):"}), "not the ratio of the undisturbed calls"),
            WrongAnswer("own inputs", compare({"(first, second)[k](x)": "(first, second)[k](x + 1000)"}), "which is not one of the inputs"),
            WrongAnswer("all ratios", compare({MEDIAN: "ratios"}), "a float or int or floating was expected"),
        ),
    ),
    "container-options": Contract(
        right=(options(), (chosen,), (without_spinning,)),
        wrong=(
            WrongAnswer("rounded", options({"int(quota) // int(period)": "round(int(quota) / int(period))"}), "should be"),
            WrongAnswer("rounded up", options({"int(quota) // int(period)": "-(-int(quota) // int(period))"}), "A quota with a part of a CPU"),
            WrongAnswer("the first quota only", options({"map(str.split, limits)": "map(str.split, limits[:1])"}), "The group above has the smaller quota"),
            WrongAnswer("the last quota only", options({"map(str.split, limits)": "map(str.split, limits[-1:])"}), "The container has the smaller quota"),
            WrongAnswer("a period of 100 ms", options({"int(period)": "100_000"}), "intra_op_num_threads is"),
            WrongAnswer("no affinity", options({"cpus = len(allowed)": "cpus = 10**6"}), "no container here has 64 CPUs"),
            WrongAnswer("the highest number", options({"len(allowed)": "max(allowed) + 1"}), "CPUs allowed"),
            WrongAnswer("one session", options({"cpus // sessions": "cpus"}), "How many sessions share them?"),
            WrongAnswer("at least one before the division", options({"max(1, cpus // sessions)": "max(1, cpus) // sessions"}), "is 0, and should be 1"),
            WrongAnswer("max is 0", options({'if quota != "max":\n            cpus = min(cpus, int(quota) // int(period))': 'cpus = min(cpus, 0 if quota == "max" else int(quota) // int(period))'}), "No quota: intra_op_num_threads is 1"),
            WrongAnswer("the default between operators", options({"options.inter_op_num_threads = 1": "pass"}), "inter_op_num_threads is 0; 1 was expected"),
            WrongAnswer("spinning", options({'options.add_session_config_entry("session.intra_op.allow_spinning", "0")': "pass"}), "spinning is not set; 0 was expected"),
            WrongAnswer("the other pool", options({"session.intra_op.allow_spinning": "session.inter_op.allow_spinning"}), "spinning is not set"),
            WrongAnswer("parallel", options({"options.inter_op_num_threads = 1": "options.inter_op_num_threads = 1; options.execution_mode = ort.ExecutionMode.ORT_PARALLEL"}), "execution_mode is ExecutionMode.ORT_PARALLEL"),
            WrongAnswer("no optimisation", options({"options.inter_op_num_threads = 1": "options.inter_op_num_threads = 1; options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL"}), "Nobody asked for another setting"),
            WrongAnswer("a number", options({"return options": "return options.intra_op_num_threads"}), "a SessionOptions was expected"),
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
            WrongAnswer("only what is read", fuse({LISTED: "[*graph.input][1:]"}), "inputs are not the ones asked for"),
        ),
    ),
}
