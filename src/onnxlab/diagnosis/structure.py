"""Symptoms that a file shows before it runs: one function a symptom."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import onnx

from onnxlab.diagnosis.model_file import ModelFile, repeated_axes, twins
from onnxlab.diagnosis.symptom import Symptom, listing
from onnxlab.history import RUNTIMES, recorded_runtime
from onnxlab.model.graph import declared, operator, reads
from onnxlab.plain_text import plain

_WASTE = 1 << 16
"""Bytes that a file must waste before it is worth a line."""

_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview", "ai.onnx.preview.training")
_RANDOM = (
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
_PATH = re.compile(r"(?:/(?:home|Users|root|mnt|tmp|opt|usr|workspace|content)/|[A-Za-z]:\\)[^\s\"',:]+")


def external_data(file: ModelFile) -> Iterator[Symptom]:
    """Weights that cannot be read, or lie outside the model's folder."""
    broken = [tensor for tensor in file.tensors if tensor.problem]
    if broken:
        yield Symptom(
            "wrong",
            f"Weights that cannot be read: {len(broken)}. Of {plain(broken[0].name, 60)!r}, "
            f"{broken[0].problem}.",
            "Without them the file does not run; one that reaches out of its folder could read what "
            "is not its own.",
            "Keep the .onnx file and its data file in one folder under their original names, or "
            "save the model again.",
            "data file",
        )


def versions(file: ModelFile) -> Iterator[Symptom]:
    """The format's version and the opset, against the recorded releases of ONNX Runtime."""
    opset = max((o.version for o in file.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    ir = file.model.ir_version
    needs = f"The file has IR version {ir} and opset {opset}."
    able = [
        release
        for release in RUNTIMES
        if recorded_runtime(release)["newest_ir"] >= ir and recorded_runtime(release)["newest_opset"] >= opset
    ]
    if able and able[0] == RUNTIMES[0]:
        return
    if able:
        first = f"Of the recorded releases of ONNX Runtime, {able[0]} is the first that loads both."
        then = (
            "If the target is older, export with a smaller opset, and lower ir_version after reading "
            "what it costs."
        )
        yield Symptom("note", needs, first, then, "runtimes")
        return
    why = f"No recorded release of ONNX Runtime, up to {RUNTIMES[-1]}, loads both."
    then = "Ask for the versions that the target knows, and export for them with opset_version."
    yield Symptom("risk", needs, why, then, "runtimes")


def unread_inputs(file: ModelFile) -> Iterator[Symptom]:
    """Inputs that no node reads."""
    graph = file.model.graph
    read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
    weights = {tensor.name for tensor in graph.initializer}
    unread = [plain(v.name, 60) for v in graph.input if v.name not in read and v.name not in weights]
    if unread:
        yield Symptom(
            "risk",
            f"No node reads the input {listing(unread)}.",
            "The caller must supply it, and it changes nothing: often an argument that the export "
            "turned into a constant.",
            "Change the argument in PyTorch: if the outputs change, export it as a tensor that the "
            "graph reads.",
            "arguments",
        )


def passed_through(file: ModelFile) -> Iterator[Symptom]:
    """Outputs that are inputs or weights."""
    graph = file.model.graph
    makers = {name: node for node in graph.node for name in node.output}
    sources = {value.name: "input" for value in graph.input}
    sources |= {tensor.name: "weight" for tensor in graph.initializer}
    for output in graph.output:
        name = output.name
        while name in makers and operator(makers[name]) == "Identity":
            name = makers[name].input[0]
        if name in sources:
            kind, shown = sources[name], plain(output.name, 60)
            then = "Compare with PyTorch at inputs that differ; if it is wanted, leave the output away."
            why = "Whatever the model should have done to it is lost, or was never traced."
            yield Symptom(
                "risk",
                f"The output {shown!r} is the {kind} {plain(name, 60)!r} itself.",
                why,
                then,
                "passed",
            )


def overridable_weights(file: ModelFile) -> Iterator[Symptom]:
    """Weights that are inputs, too."""
    graph = file.model.graph
    inputs = {value.name for value in graph.input}
    names = [plain(tensor.name, 60) for tensor in graph.initializer if tensor.name in inputs]
    if names:
        yield Symptom(
            "risk",
            f"Weights that are inputs, too: {listing(names)}.",
            "A caller may replace them, so the runtime takes none for a constant: it folds and fuses less.",
            "Export without keep_initializers_as_inputs, or remove their names from graph.input.",
            "small nodes",
        )


def custom_domains(file: ModelFile) -> Iterator[Symptom]:
    """Nodes of a domain that no runtime knows by itself."""
    functions = {(function.domain, function.name) for function in file.model.functions}
    nodes = [node for graph in file.graphs() for node in graph.node]
    foreign = Counter(
        plain(operator(node), 60)
        for node in nodes
        if node.domain not in _STANDARD and (node.domain, node.op_type) not in functions
    )
    if foreign:
        yield Symptom(
            "risk",
            f"Custom operators: {listing(list(foreign))}.",
            "They run only where a library with their kernels is registered in the session.",
            "Ship that library with the file, or give the operator a body of standard operators.",
            "custom",
        )


def random_outputs(file: ModelFile) -> Iterator[Symptom]:
    """Nodes that draw random values, and Dropout in training mode."""
    constants = _constants(file)
    for graph in file.graphs():
        random = [node for node in graph.node if node.op_type in _RANDOM and node.domain in ("", "ai.onnx")]
        random += [
            node
            for node in graph.node
            if node.op_type == "Dropout" and len(node.input) > 2 and _is_true(constants.get(node.input[2]))
        ]
        random += [
            node
            for node in graph.node
            if node.op_type == "BatchNormalization"
            and any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
        ]
        if random:
            names = listing([f"{node.op_type} {plain(node.name, 60)}".strip() for node in random])
            why = "The file computes as in training: by chance, or by the other elements of the batch."
            then = "Call model.eval() before the export, and give F.dropout its training=self.training."
            yield Symptom("wrong", f"Nodes of training or of chance: {names}.", why, then, "training")


def frozen_subgraphs(file: ModelFile) -> Iterator[Symptom]:
    """If with a constant condition, Loop with a constant number of rounds."""
    constants = _constants(file)
    for graph in file.graphs():
        for node in graph.node:
            label = plain(node.name or node.output[0], 60)
            if node.op_type == "If" and (condition := constants.get(node.input[0])) is not None:
                branch = "else_branch" if _is_true(condition) else "then_branch"
                what = f"The condition of the If {label!r} is constant: its {branch} never runs."
                why = "The example's condition was kept at the export; other inputs go the same way."
                then = "Make the condition a tensor that depends on the input: torch.cond, or torch.where."
                yield Symptom("wrong", what, why, then, "branch")
            if (
                node.op_type == "Loop"
                and node.input[0]
                and (rounds := constants.get(node.input[0])) is not None
            ):
                count = int(rounds.reshape(-1)[0]) if rounds.size else 0
                if count > 1_000_000:  # "no limit": the body's condition ends it
                    continue
                what = f"The Loop {label!r} runs {count} rounds, whatever the input is."
                why = "If the number comes from the example's size, other sizes get a wrong number of rounds."
                then = "Compare with PyTorch at a size that needs more rounds."
                yield Symptom("wrong" if count == 0 else "risk", what, why, then, "loop")


def repeated_weights(file: ModelFile) -> Iterator[Symptom]:
    """Weights that are stored twice, as they are or transposed."""
    pairs = twins(file.tensors)
    waste = sum(second.size for _, second, _ in pairs)
    if waste >= _WASTE:
        first, second, how = max(pairs, key=lambda pair: pair[1].size)
        then = (
            "Export with dynamo=True, or with do_constant_folding=False, or let both nodes read one "
            "initializer."
        )
        what = f"{waste:,} bytes are stored twice: {second.label} is {how} to {first.label}."
        why = (
            "The file and the memory are larger than they need be; a change of one copy leaves the "
            "other as it was."
        )
        yield Symptom("risk", what, why, then, "constants")


def expanded_constants(file: ModelFile) -> Iterator[Symptom]:
    """Constants that repeat one slice."""
    large = [t for t in file.tensors if t.array is not None and t.size >= _WASTE]
    blown = [(t, axes) for t in large if t.array is not None and (axes := repeated_axes(t.array))]
    if blown:
        tensor, axes = max(blown, key=lambda pair: pair[0].size)
        needed = tensor.size // int(np.prod([tensor.dims[axis] for axis in axes], dtype=object))
        yield Symptom(
            "risk",
            f"{tensor.label} repeats along axis {listing([str(axis) for axis in axes])}: {needed:,} "
            f"of {tensor.size:,} bytes say all.",
            "The exporter folded a repeat or an expand into a constant.",
            "Let broadcasting repeat it in the module, or export with optimize=False.",
            "constants",
        )


def broken_weights(file: ModelFile) -> Iterator[Symptom]:
    """Weights with values that are not finite."""
    broken = [
        t.label
        for t in file.tensors
        if t.array is not None and t.array.dtype.kind == "f" and np.isnan(t.array).any()
    ]
    if broken:
        why = "A NaN reaches every output that depends on it."
        yield Symptom(
            "wrong",
            f"Weights with NaN: {listing(broken)}.",
            why,
            "Look for the step that made it: training, a conversion to float16, a damaged file.",
            "half",
        )


def authors_notes(file: ModelFile) -> Iterator[Symptom]:
    """Paths of somebody's machine in the file's notes."""
    paths: Counter[str] = Counter()
    for owner in [
        file.model,
        file.model.graph,
        *file.model.functions,
        *(n for g in file.graphs() for n in g.node),
    ]:
        texts = [entry.value for entry in owner.metadata_props] if hasattr(owner, "metadata_props") else []
        for text in [*texts, getattr(owner, "doc_string", "")]:
            paths.update(_PATH.findall(text))
    if paths:
        shown = plain(paths.most_common(1)[0][0], 100)
        yield Symptom(
            "note",
            f"The file's notes name {len(paths)} paths of the machine that wrote it, as {shown}.",
            "Whoever gets the file reads user names, folders and lines of source.",
            "Remove metadata_props and doc_string before shipping.",
            "author",
        )


def fixed_sizes(file: ModelFile) -> Iterator[Symptom]:
    """Inputs without a dynamic axis, or with a fixed batch beside dynamic axes."""
    weights = {tensor.name for tensor in file.model.graph.initializer}
    shaped = [v for v in declared(file.model.graph.input) if v.name not in weights and v.dims]
    axes = [axis for value in shaped for axis in value.dims or ()]
    shown = listing([plain(value, 80) for value in shaped])
    if shaped and all(isinstance(axis, int) for axis in axes):
        what, why = f"Every input has a fixed size: {shown}.", "Another batch or size is refused."
    elif shaped and all((value.dims or ())[0] == 1 for value in shaped):
        what, why = f"The first axis of every input is fixed at 1: {shown}.", "A batch of two is refused."
    else:
        return
    then = "For other sizes, export with dynamic_shapes (or dynamic_axes)."
    yield Symptom("note", what, why, then, "sizes")


def differing_modes(file: ModelFile) -> Iterator[Symptom]:
    """Operators and modes that back ends compute differently."""
    modes: dict[str, list[str]] = defaultdict(list)
    for graph in file.graphs():
        for node in graph.node:
            texts = {
                a.name: a.s.decode(errors="replace")
                for a in node.attribute
                if a.type == onnx.AttributeProto.STRING
            }
            label = plain(node.name or node.output[0], 60)
            mode, coordinates = texts.get("mode"), texts.get("coordinate_transformation_mode")
            if node.op_type == "Resize" and mode == "cubic":
                modes["Resize in mode cubic"].append(label)
            elif node.op_type == "Resize" and coordinates in ("tf_crop_and_resize", "half_pixel_symmetric"):
                modes[f"Resize by {coordinates}"].append(label)
            elif node.op_type == "Pad" and mode == "wrap":
                modes["Pad in mode wrap"].append(label)
            elif node.op_type == "MaxPool" and len(node.output) > 1 and node.output[1]:
                modes["MaxPool with indices"].append(label)
            elif node.op_type in ("Asinh", "BitShift", "DepthToSpace", "If", "Loop"):
                modes[node.op_type].append(label)
    for mode, labels in modes.items():
        why = "Not every back end has this, and some compute something else without an error."
        yield Symptom(
            "note",
            f"Back ends differ in {mode}: {listing(labels)}.",
            why,
            "Compare the outputs on the target itself before shipping.",
            "back ends",
        )


def functions(file: ModelFile) -> Iterator[Symptom]:
    """Functions with a body in the file."""
    names = [plain(function.name, 60) for function in file.model.functions]
    if names:
        yield Symptom(
            "note",
            f"Functions with a body in the file: {listing(names)}.",
            "Of eight programs, two ran such a file.",
            "Unfold them with onnx.inliner.inline_local_functions before shipping.",
            "bodies",
        )


def wide_types(file: ModelFile) -> Iterator[Symptom]:
    """Inputs and outputs of 64 bits."""
    weights = {tensor.name for tensor in file.model.graph.initializer}
    values = declared([*file.model.graph.input, *file.model.graph.output])
    wide = [plain(v, 80) for v in values if v.dtype in ("int64", "float64") and v.name not in weights]
    if wide:
        yield Symptom(
            "note",
            f"64 bits: {listing(wide)}.",
            "Some targets compute in 32 bits without an error: OpenVINO's CPU made 10 of 2 * (2**40 + 5).",
            "Small whole numbers stay right; compare the largest values on the target itself.",
            "back ends",
        )


def _constants(file: ModelFile) -> dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]:
    """Return the small values that are known before the model runs, by name."""
    weights = {value.name for value in file.model.graph.input}  # a caller can replace these
    values = {}
    for graph in file.graphs():
        tensors = [(tensor.name, tensor) for tensor in graph.initializer if tensor.name not in weights]
        for node in graph.node:
            if node.op_type == "Constant":
                tensors += [
                    (node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value"
                ]
        for name, tensor in tensors:
            if tensor.data_location != onnx.TensorProto.EXTERNAL and np.prod(tensor.dims, dtype=object) <= 1:
                try:
                    values[name] = onnx.numpy_helper.to_array(tensor)
                except Exception:  # a damaged tensor, which the checker reports
                    continue
    return values


def _is_true(value: "np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None") -> bool:
    return value is not None and value.size > 0 and bool(value.reshape(-1)[0])


STRUCTURE = (
    external_data,
    broken_weights,
    random_outputs,
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
