"""Symptoms that a file shows before it runs: one function a symptom."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import onnx

from onnxlab.diagnosis.model_file import ModelFile, repeated_axes, twins
from onnxlab.diagnosis.symptom import Symptom, finding, label, listing
from onnxlab.errors import ModelNotReadable
from onnxlab.history import RUNTIMES, recorded_runtime
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import Value, declared, operator, reads, tensor_array
from onnxlab.plain_text import plain

_WASTE = 1 << 16
"""Bytes that a file must waste before it is worth a line."""

_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview", "ai.onnx.preview.training")
_NORMAL, _UNIFORM = ("RandomNormal", "RandomNormalLike"), ("RandomUniform", "RandomUniformLike")
_RANDOM = (*_NORMAL, *_UNIFORM, "Bernoulli", "Multinomial")
_PATH = re.compile(r"(?:/(?:home|Users|root|mnt|tmp|opt|usr|workspace|content)/|[A-Za-z]:\\)[^\s\"',:]+")


@finding(
    "wrong",
    "data file",
    "Without them the file does not run; one that reaches out of its folder could read what is not its own.",
    "Keep the .onnx file and its data file in one folder under their original names, or save the model "
    "again.",
)
def external_data(file: ModelFile) -> Iterator[str]:
    """Weights that cannot be read, or lie outside the model's folder."""
    broken = [tensor for tensor in file.tensors if tensor.problem]
    if broken:
        yield Message(
            "Weights that cannot be read: {count}. Of {name!r}, {first.problem}.",
            count=len(broken),
            name=plain(broken[0].name, 60),
            first=broken[0],
        )


@finding(
    "wrong",
    "half",
    "A NaN reaches every output that depends on it.",
    "Look for the step that made it: training, a conversion to float16, a damaged file.",
)
def broken_weights(file: ModelFile) -> Iterator[str | Symptom]:
    """Weights with values that are not finite."""
    chosen = _only_chosen(file)
    # The thresholds of trees are compared with and go into nothing that is computed.
    weights = [tensor for tensor in file.tensors if not tensor.operator.startswith("TreeEnsemble")]
    held = {tensor.label: tensor.values_not_finite() for tensor in weights if tensor.name not in chosen}
    if broken := [name for name, values in held.items() if "NaN" in values]:
        yield Message("Weights with NaN: {listing}.", listing=listing(broken))
    then = "If nobody put it there on purpose, look for an overflow: training, a conversion to float16."
    if infinite := [name for name, values in held.items() if "inf" in values]:
        why = "Every output that depends on it can be inf or NaN."
        yield Symptom(
            "risk", Message("Weights with inf: {listing}.", listing=listing(infinite)), why, then, "half"
        )
    if masks := [tensor.label for tensor in weights if tensor.values_not_finite() == {"-inf"}]:
        why = "The masks of attention hold it on purpose; a row of nothing else becomes NaN in Softmax."
        yield Symptom(
            "note", Message("Weights with -inf: {listing}.", listing=listing(masks)), why, then, "half"
        )


def _only_chosen(file: ModelFile) -> set[str]:
    """Return what only Where nodes read, as what they choose: a mark, put there on purpose."""
    chosen: defaultdict[str, set[bool]] = defaultdict(set)
    for node in file.nodes:
        for place, name in enumerate(node.input):
            chosen[name].add(node.op_type == "Where" and place > 0)
    return {name for name, uses in chosen.items() if uses == {True}}


@finding(
    "wrong",
    "training",
    "The file computes as in training: by chance, or by the other elements of the batch.",
    "Call model.eval() before the export, and give F.dropout its training=self.training.",
)
def random_outputs(file: ModelFile) -> Iterator[str]:
    """Nodes that draw random values, and Dropout and BatchNormalization in training mode."""
    constants = _constants(file)

    def trains(node: onnx.NodeProto) -> bool:
        if node.op_type == "Dropout":
            return len(node.input) > 2 and _is_true(constants.get(node.input[2]))
        if node.op_type == "BatchNormalization":
            return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
        return operator(node) in _RANDOM

    for graph in file.graphs():
        names = [f"{node.op_type} {plain(node.name, 60)}".strip() for node in graph.node if trains(node)]
        if names:
            yield Message("Nodes of training or of chance: {listing}.", listing=listing(names))


@finding(
    "wrong",
    "half",
    "Its square root is NaN, and so is every output that depends on it.",
    "Look for the step that made it: a damaged file, a conversion, a fusion; store the variance again.",
)
def negative_variances(file: ModelFile) -> Iterator[str]:
    """BatchNormalization with a variance below zero."""
    large = {tensor.name: tensor.array for tensor in file.tensors}
    for graph in file.graphs():
        small = {tensor.name: tensor for tensor in graph.initializer}
        for node in (
            node for node in graph.node if node.op_type == "BatchNormalization" and len(node.input) > 4
        ):
            array, name = large.get(node.input[4]), node.input[4]
            if array is None and name in small and small[name].data_location != onnx.TensorProto.EXTERNAL:
                with suppress(ModelNotReadable):
                    array = tensor_array(small[name])
            epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
            if array is not None and array.size and float(array.min()) + epsilon < 0:
                yield Message(
                    "The variance {name} of the BatchNormalization {label!r} is negative: {least:.3g}.",
                    name=plain(name, 60),
                    label=label(node),
                    least=float(array.min()),
                )


@finding(
    "risk",
    "scatter",
    "Where an index occurs twice, one of the values is kept and the other is lost: index_add needs a sum.",
    'Export at opset 16 or later with reduction="add", or make sure that no index occurs twice.',
)
def overwriting_scatters(file: ModelFile) -> Iterator[str]:
    """Scatter nodes without a reduction, whose indices come from an input."""
    given = _from_inputs(file)
    names = [
        label(node)
        for node in file.nodes
        if node.op_type in ("Scatter", "ScatterElements", "ScatterND")
        and not any(a.name == "reduction" and a.s not in (b"", b"none") for a in node.attribute)
        and node.input[1] in given
    ]
    if names:
        yield Message("Values are scattered without a reduction: {listing}.", listing=listing(names))


@finding(
    "note",
    "division",
    "ONNX rounds toward zero, -7 / 2 to -3; Python's // rounds down, to -4.",
    'Compare with PyTorch at negative numbers; torch.div(..., rounding_mode="trunc") is what the file does.',
)
def whole_divisions(file: ModelFile) -> Iterator[str]:
    """Div of whole numbers that come from an input."""
    given, whole = _from_inputs(file), _whole_numbers(file)
    corrected = {tuple(node.input) for node in file.nodes if node.op_type == "Mod"}
    names = [
        label(node)
        for node in file.nodes
        if node.op_type == "Div" and node.input[0] in given & whole and tuple(node.input) not in corrected
    ]
    if names:
        yield Message("Div of whole numbers: {listing}.", listing=listing(names))


@finding(
    "note",
    "masked",
    "A row of the mask that allows nothing has no softmax: the file gives NaN or a mean, where PyTorch's "
    "attention gives 0.",
    "Let each row see one position at least, or compare with PyTorch at such a mask.",
)
def masked_rows(file: ModelFile) -> Iterator[str]:
    """Softmax over what a mask from an input can forbid altogether."""
    given, constants = _from_inputs(file), _constants(file)
    makers = {name: node for node in file.nodes for name in node.output}
    guarded = {node.input[0] for node in file.nodes if node.op_type == "IsNaN"}

    def forbids(node: onnx.NodeProto, *, guarded: bool) -> bool:
        numbers = [constants[name] for name in node.input[1:] if name in constants]
        least = min((float(n.reshape(-1)[0]) for n in numbers if n.size and n.dtype.kind == "f"), default=0)
        # Behind an IsNaN a row of -inf becomes 0; a row of finite numbers stays a mean.
        lowest = np.finfo(np.float64).min if guarded else -np.inf
        return node.op_type == "Where" and lowest <= least < -1e4 and node.input[0] in given

    names = []
    for node in (node for node in file.nodes if node.op_type == "Softmax"):
        pending, seen = [*node.input[:1]], set[str]()
        while pending and len(seen) < 12:
            maker = makers.get(name := pending.pop())
            if (
                maker is None
                or name in seen
                or maker.op_type not in ("Add", "Where", "Cast", "Unsqueeze", "Expand")
            ):
                continue
            seen.add(name)
            pending += maker.input
            if forbids(maker, guarded=node.output[0] in guarded):
                names.append(label(node))
                break
    if names:
        yield Message("Softmax over a mask that is an input: {listing}.", listing=listing(names))


@finding(
    "note",
    "window",
    "An adaptive pool has a fixed output; its file has a fixed window, right at the example's size only.",
    "If it is adaptive in PyTorch, compare at another size; write it as means over windows, or fix the size.",
)
def fixed_windows(file: ModelFile) -> Iterator[str]:
    """A pool with a fixed window at the end of a graph with dynamic sizes."""
    dynamic = any(isinstance(axis, str) for value in _inputs(file) for axis in (value.dims or ())[2:])
    graph = file.flat.graph
    ends = {value.name for value in graph.output}
    ends |= {node.input[0] for node in graph.node if node.op_type in ("Flatten", "Reshape") and node.input}
    for node in (node for node in graph.node if node.op_type in ("AveragePool", "MaxPool") and dynamic):
        numbers = {attribute.name: [*attribute.ints] for attribute in node.attribute}
        window = numbers.get("kernel_shape", [])
        if window == numbers.get("strides") and node.output[0] in ends and not any(numbers.get("pads", [])):
            yield Message(
                "The pool {label!r} has a fixed window, {window}.", label=label(node), window=window
            )


@finding(
    "wrong",
    "branch",
    "The example's condition was kept at the export; other inputs go the same way.",
    "Make the condition a tensor that depends on the input: torch.cond, or torch.where.",
)
def frozen_subgraphs(file: ModelFile) -> Iterator[str | Symptom]:
    """If with a constant condition, Loop with a constant number of iterations."""
    constants = _constants(file)
    for node in file.nodes:
        constant = constants.get(node.input[0]) if node.input else None
        if node.op_type == "If" and constant is not None:
            branch = "else_branch" if _is_true(constant) else "then_branch"
            yield Message(
                "The condition of the If {label!r} is constant: its {branch} never runs.",
                label=label(node),
                branch=branch,
            )
        if node.op_type == "Loop" and constant is not None:
            count = int(constant.reshape(-1)[0]) if constant.size else 0
            if count > 1_000_000:  # "no limit": the body's condition ends it
                continue
            what = Message(
                "The Loop {label!r} has {n} as its number of iterations, whatever the input is.",
                label=label(node),
                n=count,
            )
            why = "If the number comes from the example's size, other sizes get a wrong number of iterations."
            then = "Compare with PyTorch at a size that needs more iterations."
            yield Symptom("risk" if count else "wrong", what, why, then, "loop")


@finding(
    "risk",
    "arguments",
    "The caller must supply it, and it changes nothing: often an argument that the export turned into a "
    "constant.",
    "Change the argument in PyTorch: if the outputs change, export it as a tensor that the graph reads.",
)
def unread_inputs(file: ModelFile) -> Iterator[str]:
    """Inputs that no node reads."""
    graph = file.model.graph
    read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
    unread = [value.name for value in _inputs(file) if value.name not in read]
    if unread:
        yield Message("No node reads the input {listing}.", listing=listing(unread))


@finding(
    "risk",
    "passed",
    "Whatever the model should have done to it is lost, or was never traced.",
    "Compare with PyTorch at inputs that differ; if it is wanted, leave the output away.",
)
def passed_through(file: ModelFile) -> Iterator[str]:
    """Outputs that are inputs or weights."""
    graph = file.model.graph
    identities = {node.output[0]: node.input[0] for node in graph.node if operator(node) == "Identity"}
    sources = {value.name: "input" for value in graph.input}
    sources |= {tensor.name: "weight" for tensor in graph.initializer}
    for output in graph.output:
        name = output.name
        for _ in identities:  # as many steps at most: a file of a stranger can have a cycle
            name = identities.get(name, name)
        if name in sources:
            shown = plain(output.name, 60)
            yield Message(
                "The output {shown!r} is the {sources_name} {name!r} itself.",
                shown=shown,
                sources_name=sources[name],
                name=plain(name, 60),
            )


@finding(
    "risk",
    "small nodes",
    "A caller may replace them, so the runtime takes none for a constant: it folds and fuses less.",
    "Export without keep_initializers_as_inputs, or remove their names from graph.input.",
)
def overridable_weights(file: ModelFile) -> Iterator[str]:
    """Weights that are inputs, too."""
    inputs = {value.name for value in file.model.graph.input}
    names = [tensor.name for tensor in file.model.graph.initializer if tensor.name in inputs]
    if names:
        yield Message("Weights that are inputs, too: {listing}.", listing=listing(names))


@finding(
    "risk",
    "custom",
    "They run only where a library with their kernels is registered in the session.",
    "Ship that library with the file, or give the operator a body of standard operators.",
)
def custom_domains(file: ModelFile) -> Iterator[str]:
    """Nodes of a domain that no runtime knows by itself."""
    bodies = {(function.domain, function.name) for function in file.model.functions}
    nodes = [node for node in file.nodes if node.domain not in _STANDARD]
    foreign = Counter(operator(node) for node in nodes if (node.domain, node.op_type) not in bodies)
    if foreign:
        yield Message("Custom operators: {listing}.", listing=listing(foreign))


@finding(
    "risk",
    "constants",
    "The file and the memory are larger than they need be; a change of one copy leaves the other as it was.",
    "Export with dynamo=True, or with do_constant_folding=False, or let both nodes read one initializer.",
)
def repeated_weights(file: ModelFile) -> Iterator[str]:
    """Weights that are stored twice, as they are or transposed."""
    pairs = twins(file.tensors)
    waste = sum(second.size for _, second, _ in pairs)
    if waste >= _WASTE:
        first, second, how = max(pairs, key=lambda pair: pair[1].size)
        yield Message(
            "{waste:,} bytes are stored twice: {second.label} is {how} to {first.label}.",
            waste=waste,
            second=second,
            how=how,
            first=first,
        )


@finding(
    "risk",
    "constants",
    "The exporter folded a repeat or an expand into a constant.",
    "Let broadcasting repeat it in the module, or export with optimize=False.",
)
def expanded_constants(file: ModelFile) -> Iterator[str]:
    """Constants that repeat one slice."""
    arrays = [(tensor, tensor.array) for tensor in file.tensors if tensor.size >= _WASTE]
    blown = [(t, axes) for t, array in arrays if array is not None and (axes := repeated_axes(array))]
    if blown:
        tensor, axes = max(blown, key=lambda pair: pair[0].size)
        size, copies = tensor.size, np.prod([tensor.dims[axis] for axis in axes], dtype=object)
        needed = size // int(copies)
        yield Message(
            "{tensor.label} repeats along axis {listing}: {needed:,} of {size:,} bytes say all.",
            tensor=tensor,
            listing=listing(axes),
            needed=needed,
            size=size,
        )


def versions(file: ModelFile) -> Iterator[Symptom]:
    """The format's version and the opset, against the recorded releases of ONNX Runtime; two opsets."""
    imported: defaultdict[str, set[int]] = defaultdict(set)
    for entry in file.model.opset_import:
        imported[entry.domain or "ai.onnx"].add(entry.version)
    for domain, opsets in imported.items():
        if len(opsets) > 1:
            what = Message(
                "The file imports {domain} at opsets {opsets}.",
                domain=plain(domain, 60),
                opsets=listing(sorted(opsets)),
            )
            why = "Programs differ in which one counts: ONNX Runtime takes the last, onnx the highest."
            then = "Keep the one that the nodes were written for, and remove the others from opset_import."
            yield Symptom("wrong", what, why, then, "runtimes")
    opset = max((o.version for o in file.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    ir = file.model.ir_version
    needs = Message("The file has IR version {ir} and opset {opset}.", ir=ir, opset=opset)
    if 0 < opset < 7:
        why = "ONNX Runtime starts at opset 7: it has no kernels for older forms of most operators."
        then = "Convert it: onnx.version_converter.convert_version(model, 13); or export it again."
        yield Symptom("risk", needs, why, then, ("13_ship_it", "4. Does the converter keep the outputs?"))
        return
    facts = {release: recorded_runtime(release) for release in RUNTIMES}
    able = [name for name, fact in facts.items() if fact["newest_ir"] >= ir and fact["newest_opset"] >= opset]
    if not able:
        why = Message(
            "No recorded release of ONNX Runtime, up to {runtimes}, loads both.", runtimes=RUNTIMES[-1]
        )
        then = "Ask for the versions that the target knows, and export for them with opset_version."
        yield Symptom("risk", needs, why, then, "runtimes")
    elif able[0] != RUNTIMES[0]:
        why = Message(
            "Of the recorded releases of ONNX Runtime, {able} is the first that loads both.", able=able[0]
        )
        then = (
            "If the target is older, export with a smaller opset, and lower ir_version after reading "
            "what it costs."
        )
        yield Symptom("note", needs, why, then, "runtimes")


def fixed_sizes(file: ModelFile) -> Iterator[Symptom]:
    """Inputs without a dynamic axis, or with a fixed batch beside dynamic axes."""
    shaped = [(value, value.dims) for value in _inputs(file) if value.dims]
    shown = listing(value for value, _ in shaped)
    then = "For other sizes, export with dynamic_shapes (or dynamic_axes)."
    if shaped and all(isinstance(axis, int) for _, axes in shaped for axis in axes):
        what, why = (
            Message("Every input has a fixed size: {shown}.", shown=shown),
            "Another batch or size is refused.",
        )
        yield Symptom("note", what, why, then, "sizes")
    elif shaped and all(axes[0] == 1 for _, axes in shaped):
        what, why = (
            Message("The first axis of every input is fixed at 1: {shown}.", shown=shown),
            "A batch of two is refused.",
        )
        yield Symptom("note", what, why, then, "sizes")


@finding(
    "note",
    "back ends",
    "Not every back end has this, and some compute something else without an error.",
    "Compare the outputs on the target itself before shipping.",
)
def differing_modes(file: ModelFile) -> Iterator[str]:
    """Operators and modes that back ends compute differently."""
    modes: dict[str, list[str]] = defaultdict(list)
    for node in file.nodes:
        if mode := _differing_mode(node):
            modes[mode].append(label(node))
    for mode, labels in modes.items():
        yield Message("Back ends differ in {mode}: {listing}.", mode=mode, listing=listing(labels))


def _differing_mode(node: onnx.NodeProto) -> str:
    values = {attribute.name: attribute.s.decode(errors="replace") for attribute in node.attribute}
    mode, coordinates = values.get("mode"), values.get("coordinate_transformation_mode")
    if node.op_type == "Resize" and mode == "cubic":
        return Message("{name} in mode {mode}", name=node.op_type, mode=mode)
    if node.op_type == "Resize" and coordinates in ("tf_crop_and_resize", "half_pixel_symmetric"):
        return Message("{name} in mode {mode}", name=node.op_type, mode=coordinates)
    if node.op_type == "Pad" and mode == "wrap":
        return Message("{name} in mode {mode}", name=node.op_type, mode=mode)
    if node.op_type == "MaxPool" and len(node.output) > 1 and node.output[1]:
        return Message("{name} with indices", name=node.op_type)
    return node.op_type if node.op_type in ("Asinh", "BitShift", "DepthToSpace", "If", "Loop") else ""


@finding(
    "note",
    "bodies",
    "Of eight programs, two ran such a file.",
    "Unfold them with onnx.inliner.inline_local_functions before shipping.",
)
def functions(file: ModelFile) -> Iterator[str]:
    """Functions with a body in the file."""
    names = list(dict.fromkeys(function.name for function in file.model.functions))  # overloads share a name
    if names:
        yield Message("Functions with a body in the file: {listing}.", listing=listing(names))


@finding(
    "note",
    "back ends",
    "Some targets compute in 32 bits without an error: OpenVINO's CPU made 10 of 2 * (2**40 + 5).",
    "Small whole numbers stay right; compare the largest values on the target itself.",
)
def wide_types(file: ModelFile) -> Iterator[str]:
    """Inputs and outputs of 64 bits."""
    values = [*_inputs(file), *declared(file.model.graph.output)]
    wide = [value for value in values if value.dtype in ("int64", "float64")]
    if wide:
        yield Message("64 bits: {listing}.", listing=listing(wide))


@finding(
    "note",
    "author",
    "Whoever gets the file reads user names, folders and lines of source.",
    "Remove metadata_props and doc_string before shipping.",
)
def authors_notes(file: ModelFile) -> Iterator[str]:
    """Paths of somebody's machine in the file's notes."""
    model, paths = file.model, Counter[str]()
    for owner in (model, model.graph, *model.functions, *file.nodes):
        for text in (owner.doc_string, *(entry.value for entry in owner.metadata_props)):
            paths.update(_PATH.findall(text))
    if paths:
        shown = listing([path for path, _ in paths.most_common()], 2)
        yield Message("The file's notes name paths of the machine that wrote it: {shown}.", shown=shown)


def _inputs(file: ModelFile) -> list[Value]:
    """Return the declared inputs that are no weights."""
    weights = {tensor.name for tensor in file.model.graph.initializer}
    return [value for value in declared(file.model.graph.input) if value.name not in weights]


def _from_inputs(file: ModelFile) -> set[str]:
    """Return the names of the values that depend on the values of an input, not on its sizes alone."""
    given = {value.name for value in _inputs(file)}
    for node in file.nodes:
        # The indices of these are all different.
        if node.op_type not in ("Shape", "Size", "NonZero", "TopK", "Unique") and given & reads(node):
            given |= {name for name in node.output if name}
    return given


def _whole_numbers(file: ModelFile) -> set[str]:
    """Return the names of the values that are known to be whole numbers with a sign."""
    graph = file.flat.graph
    values = declared([*graph.input, *graph.value_info, *graph.output])
    whole = {value.name for value in values if value.dtype.startswith("int")}
    for node in file.nodes:
        to = next((a.i for a in node.attribute if a.name == "to"), None)
        kept = node.op_type in ("Add", "Sub", "Mul", "Div", "Neg", "Identity", "Gather", "Reshape", "Concat")
        if (to in (5, 3, 6, 7)) if node.op_type == "Cast" else kept and node.input[0] in whole:
            whole |= set(node.output)
    return whole


def _constants(file: ModelFile) -> dict[str, Array]:
    """Return the small values that are known before the model runs, by name."""
    inputs = {value.name for value in file.model.graph.input}  # a caller can replace these
    values = {}
    for graph in file.graphs():
        named = [(tensor.name, tensor) for tensor in graph.initializer if tensor.name not in inputs]
        constants = [node for node in graph.node if node.op_type == "Constant"]
        named += [(node.output[0], a.t) for node in constants for a in node.attribute if a.name == "value"]
        for name, tensor in named:
            if tensor.data_location != onnx.TensorProto.EXTERNAL and np.prod(tensor.dims, dtype=object) <= 1:
                with suppress(ModelNotReadable):  # the checker reports a damaged tensor
                    values[name] = tensor_array(tensor)
    return values


def _is_true(value: Array | None) -> bool:
    return value is not None and value.size > 0 and bool(value.reshape(-1)[0])


STRUCTURE = (
    external_data,
    broken_weights,
    random_outputs,
    negative_variances,
    overwriting_scatters,
    whole_divisions,
    masked_rows,
    fixed_windows,
    frozen_subgraphs,
    unread_inputs,
    passed_through,
    overridable_weights,
    custom_domains,
    repeated_weights,
    expanded_constants,
    versions,
    fixed_sizes,
    differing_modes,
    functions,
    wide_types,
    authors_notes,
)
"""What is looked for, in this order."""
