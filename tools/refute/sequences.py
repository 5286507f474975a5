"""Chapters 17 to 20 and the museum: caches, sequences, boxes, patients, what old texts said."""

import itertools
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from onnxlab.runtime.session import open_session
from tools.refute.backends import in_openvino
from tools.refute.claims import Attempts, claim
from tools.refute.exports import (
    BOTH,
    DEFAULT,
    TORCHSCRIPT,
    Call,
    close,
    exported,
    parsed,
    raised,
    ran,
    referred,
    tried,
)


class Three(nn.Module):
    """A forward of three arguments that differ in weight."""

    def forward(self, first: torch.Tensor, second: torch.Tensor, third: torch.Tensor) -> torch.Tensor:
        """Add them."""
        return first + 10 * second + 100 * third


@claim(
    "17_decoder_with_cache",
    "2. What do the names of the cache promise?",
    "With `kwargs`, torch.export keeps the order of your dictionary, and the TorchScript exporter sorts the arguments as "
    "`forward` does.",
)
def every_order_of_three_keywords() -> Attempts:
    for exporter, order in itertools.product(BOTH, itertools.permutations(("first", "second", "third"))):
        file = exported(Three(), (), exporter, kwargs={name: torch.rand(2) for name in order})
        by_value = {"first": 1.0, "second": 10.0, "third": 100.0}
        expected = order if exporter is DEFAULT else ("first", "second", "third")
        weights = [
            float(ran(file, *[np.full(2, float(i == k), np.float32) for i in range(3)])[0][0])
            for k in range(3)
        ]
        yield f"{exporter}, {order}: {weights}", weights == [by_value[name] for name in expected]


@claim(
    "20_clinic",
    "3. All names are there: are they on the right inputs?",
    "Give positional arguments, or keywords in the order of the signature, or no names: the parameters' own names are "
    "then used, and are right in any order.",
)
def own_names_in_every_order() -> Attempts:
    for order in itertools.permutations(("first", "second", "third")):
        file = exported(Three(), (), DEFAULT, kwargs={name: torch.rand(2) for name in order})
        inputs = {"first": 1.0, "second": 2.0, "third": 3.0}
        got = open_session(file).run(
            None, {name: np.full(2, value, np.float32) for name, value in inputs.items()}
        )
        yield f"{order}", close(got[0], np.full(2, 321.0))


@claim(
    "17_decoder_with_cache",
    "6. May the cache be an object?",
    "The TorchScript exporter knows tuples, lists and dictionaries only: give it a module with tensors in and tensors "
    "out.",
)
def containers_of_other_kinds() -> Attempts:
    Pair = namedtuple("Pair", "a b")

    @dataclass
    class Record:
        a: torch.Tensor
        b: torch.Tensor

    a, b = torch.rand(2), torch.rand(2)
    for label, value, function in (
        ("tuple", (a, b), lambda c: c[0] + c[1]),
        ("list", [a, b], lambda c: c[0] + c[1]),
        ("dict", {"a": a, "b": b}, lambda c: c["a"] + c["b"]),
        ("OrderedDict", OrderedDict(a=a, b=b), lambda c: c["a"] + c["b"]),
        ("namedtuple", Pair(a, b), lambda c: c[0] + c[1]),
        ("dataclass", Record(a, b), lambda c: c.a + c.b),
        ("set", {a}, lambda c: sum(c)),
    ):
        arguments = (value, {}) if isinstance(value, dict) else (value,)  # a last dict would be keywords
        made = tried(Call(function), arguments, TORCHSCRIPT)
        accepted = made.ok and close(
            ran(made.proto, *([a, b] if label != "set" else [a]))[0], a + b if label != "set" else a
        )
        yield f"{label}: accepted {accepted}", accepted == (label not in {"dataclass", "set"})


@claim(
    "17_decoder_with_cache",
    "5. Which comparison catches a wrong mask?",
    "With `is_causal` the triangle begins in the **top left** corner: the first new token sees the first key only.",
)
def triangles_of_other_sizes() -> Attempts:
    for queries, keys in ((1, 4), (2, 5), (4, 4), (5, 2)):
        values = torch.eye(keys).expand(1, 1, keys, keys)
        q, k = torch.rand(1, 1, queries, 8), torch.rand(1, 1, keys, 8)
        seen = nn.functional.scaled_dot_product_attention(q, k, values, is_causal=True)[0, 0] > 0
        yield f"{queries} queries, {keys} keys", bool((seen == torch.ones(queries, keys).tril().bool()).all())


@claim(
    "17b_what_people_bring",
    "7. What do ready-made language models run on?",
    "One node, one buffer, no copy; only ONNX Runtime runs it.",
)
def grouped_attention_in_openvino() -> Attempts:
    text = """grouped (float[B,T,64] q, float[B,T,32] k, float[B,T,32] v, float[B,2,P,16] past_key,
         float[B,2,P,16] past_value, int32[B] last, int32[1] total)
         => (float[B,T,64] y, float[B,2,N,16] present_key, float[B,2,N,16] present_value)
    { y, present_key, present_value = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2>
      (q, k, v, past_key, past_value, last, total) }"""
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n' + text)
    onnx.save(model, "grouped.onnx")
    generator = np.random.default_rng(0)
    q, k, v = (generator.standard_normal((1, 1, size), np.float32) for size in (64, 32, 32))
    past = [generator.standard_normal((1, 2, 5, 16), np.float32) for _ in range(2)]
    inputs = [q, k, v, *past, np.array([5], np.int32), np.array([6], np.int32)]
    expected = ran(model, *inputs)[0]
    error = raised(in_openvino, "grouped.onnx", *inputs)
    same = not error and close(in_openvino("grouped.onnx", *inputs)[0], expected, 1e-3)
    yield f"OpenVINO computes the same: {same} {error[:120]}", not same
    yield "onnx.reference", bool(raised(referred, model, *inputs))


@claim(
    "17b_what_people_bring",
    "2. Which of the two mends the text?",
    "Rotary positions matter as *differences* only, and padding shifts all positions of a row by the same number.",
)
def scores_of_shifted_positions() -> Attempts:
    def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        angles = positions[:, None] * 10000.0 ** (-torch.arange(8, dtype=torch.float64) / 8)
        left, right = x.chunk(2, -1)
        return torch.cat(
            [left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], -1
        )

    q, k = torch.rand(6, 16, dtype=torch.float64), torch.rand(6, 16, dtype=torch.float64)
    positions = torch.arange(6, dtype=torch.float64)
    scores = rotated(q, positions) @ rotated(k, positions).T
    for shift in (1, 7, 100, 100_000):
        yield (
            f"shifted by {shift}",
            close(rotated(q, positions + shift) @ rotated(k, positions + shift).T, scores, 1e-6),
        )
    yield (
        "stretched by 2 differs",
        not close(rotated(q, positions * 2) @ rotated(k, positions * 2).T, scores, 1e-6),
    )


@claim(
    "18_sequences_and_signals",
    "4. What happens between two pieces of a signal?",
    "ONNX Runtime keeps no tensor between two runs (only the state of random operators), so the state is "
    "an input and an output.",
    fell="ONNX Runtime keeps nothing between two runs, so the state is an input and an output.",
    why="a generator with a seed goes on where it stopped",
)
def what_a_second_run_remembers() -> Attempts:
    for label, text in {
        "LSTM": "g (float[3,1,2] x, float[1,8,2] w, float[1,8,2] r) => (float[s,d,b,h] y) { y = LSTM <hidden_size = 2> (x, w, r) }",
        "RandomUniformLike with a seed": "g (float[3,1,2] x) => (float[3,1,2] y) { y = RandomUniformLike <seed = 1.0> (x) }",
        "Dropout with a seed": "g (float[3,1,2] x) => (float[3,1,2] y) <float r = {0.5}, bool t = {1}> { y = Dropout <seed = 1> (x, r, t) }",
    }.items():
        model = parsed(text)
        session = open_session(model)
        names = {value.name: value.shape for value in session.get_inputs()}
        inputs = {name: np.full(shape, 0.3, np.float32) for name, shape in names.items()}
        runs = [session.run(None, inputs)[0] for _ in range(4)]
        same = all(close(run, runs[0]) for run in runs)
        yield f"{label}: a second run gives the same: {same}", same == (label == "LSTM")


@claim(
    "18_sequences_and_signals",
    "6. What becomes of a loop that you write yourself?",
    "The bidirectional layer carries the padding backwards into every shorter sequence: the backward half of its outputs "
    "is wrong.",
)
def padded_batches_of_other_layers() -> Attempts:
    for layer in (
        nn.LSTM(3, 4, batch_first=True, bidirectional=True),
        nn.GRU(3, 4, batch_first=True, bidirectional=True),
        nn.RNN(3, 4, batch_first=True, bidirectional=True),
    ):
        x = torch.rand(3, 6, 3)
        lengths = (6, 4, 1)
        for row, length in enumerate(lengths):
            x[row, length:] = 0
        out = layer(x)[0].detach()
        for row, length in enumerate(lengths):
            alone = layer(x[row : row + 1, :length])[0].detach()[0]
            same = close(out[row, :length, :4], alone[:, :4]), close(out[row, :length, 4:], alone[:, 4:])
            yield f"{type(layer).__name__}, {length} of 6: {same}", same == (True, length == 6)


@claim(
    "19_detection",
    "2. Who writes the suppression?",
    "An IoU left out is 0, so the smallest overlap is enough to be removed.",
    fell="An IoU left out is 0, so a touch is enough to be removed.",
    why="boxes with a common edge or corner have IoU 0, which is not above 0: both stay",
)
def boxes_that_touch() -> Attempts:
    text = (
        "g (float[1,2,4] b, float[1,1,2] s, int64[1] m) => (int64[n,3] y) { y = NonMaxSuppression(b, s, m) }"
    )
    for label, second, removed in (
        ("a common edge", [0, 1, 1, 2], False),
        ("a common corner", [1, 1, 2, 2], False),
        ("a thin overlap", [0, 0.999, 1, 2], True),
        ("apart", [3, 3, 4, 4], False),
    ):
        boxes = np.array([[[0, 0, 1, 1], second]], np.float32)
        scores = np.array([[[0.9, 0.8]]], np.float32)
        kept = ran(parsed(text), boxes, scores, np.array([9]))[0]
        yield f"{label}: {len(kept)} boxes left", (len(kept) == 1) == removed


@claim(
    "19_detection",
    "2. Who writes the suppression?",
    "The score must be *above* the threshold.",
)
def scores_on_the_threshold() -> Attempts:
    text = """g (float[1,1,4] b, float[1,1,1] s, int64[1] m, float[1] o, float[1] t) => (int64[n,3] y)
    { y = NonMaxSuppression(b, s, m, o, t) }"""
    for threshold in (0.25, 0.5, 0.3):
        for delta in (-0.01, 0.0, 0.01):
            inputs = (np.array([[[0, 0, 1, 1]]]), np.array([[[threshold + delta]]]))
            boxes = ran(
                parsed(text),
                *[i.astype(np.float32) for i in inputs],
                np.array([9]),
                np.array([0.5], np.float32),
                np.array([threshold], np.float32),
            )[0]
            yield f"{threshold}, score {delta:+}", (len(boxes) == 1) == (delta > 0)


@claim(
    "19_detection",
    "2. Who writes the suppression?",
    "And the limit counts for each class.",
)
def the_limit_by_class_and_by_picture() -> Attempts:
    text = "g (float[P,9,4] b, float[P,C,9] s, int64[1] m, float[1] o) => (int64[n,3] y) { y = NonMaxSuppression(b, s, m, o) }"
    boxes = np.array([[[i, i, i + 0.5, i + 0.5] for i in range(9)]], np.float32)
    for pictures, classes, most in itertools.product((1, 2), (1, 3), (1, 4)):
        scores = np.random.default_rng(0).random((pictures, classes, 9), np.float32) + 0.1
        kept = ran(
            parsed(text), np.repeat(boxes, pictures, 0), scores, np.array([most]), np.array([0.5], np.float32)
        )[0]
        yield f"{pictures} pictures, {classes} classes, {most}", len(kept) == pictures * classes * most


@claim(
    "19_detection",
    "4. What does half a pixel move?",
    "Two more rules of `interpolate`: `antialias=True`, which smooths a picture that shrinks a lot, is written by "
    "torch.export only.",
)
def antialias_in_both_exporters() -> Attempts:
    for mode, exporter in itertools.product(("bilinear", "bicubic"), BOTH):
        shrink = partial(lambda m, x: nn.functional.interpolate(x, size=(3, 3), mode=m, antialias=True), mode)
        x = torch.rand(1, 1, 12, 12)
        made = tried(Call(shrink), (x,), exporter)
        right = made.ok and close(ran(made.proto, x)[0], shrink(x), 1e-3)
        yield f"{mode}, {exporter}: written {made.ok}, right {right}", right == (exporter is DEFAULT)


@claim(
    "19_detection",
    "5. What happens without an object?",
    'It does not even return `nan`: ONNX Runtime\'s mean of nothing is 0, "not sure at all", where -1 was meant.',
)
def means_of_nothing() -> Attempts:
    for shape, axes in (([0], 0), ([0, 3], 0), ([2, 0], 1)):
        dims = ",".join(map(str, shape))
        text = f"g (float[{dims}] x, int64[1] a) => (float y) {{ y = ReduceMean <keepdims = 0> (x, a) }}"
        model = parsed(text)
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.ClearField("shape")
        got = ran(model, np.zeros(shape, np.float32), np.array([axes]))[0]
        yield f"{shape}, axis {axes}: {got}", not np.isnan(got).any() and bool((got == 0).all())


@claim(
    "20_clinic",
    "2. Random tests pass: what do large numbers do?",
    "`F.logsigmoid` has the same fault at the other end: ONNX Runtime's `Sigmoid` is exactly 0 at -20.",
    fell="`F.logsigmoid` has the same fault at the other end: its `Sigmoid` is exactly 0 at -20.",
    why="onnx.reference gives 2e-9: it is ONNX Runtime's Sigmoid that is 0",
)
def sigmoids_of_runtime_and_reference() -> Attempts:
    model = parsed("g (float[1] x) => (float[1] y) { y = Sigmoid(x) }")
    x = np.array([-20.0], np.float32)
    yield f"ONNX Runtime: {ran(model, x)[0]}", ran(model, x)[0][0] == 0
    yield f"onnx.reference: {referred(model, x)[0]}", referred(model, x)[0][0] > 0


@claim(
    "20_clinic",
    "5. The checker passes and the runtime refuses: who is right?",
    "The short check does not look at types; the full one infers them and finds that ONNX's `CumSum` accepts numbers "
    "only.",
)
def operators_given_truth_values() -> Attempts:
    for operator in ("CumSum(x, k)", "Neg(x)", "Add(x, x)", "ReduceSum(x, k)", "Sigmoid(x)"):
        model = parsed(f"g (bool[3] x, int64[1] k) => (bool[n] y) {{ y = {operator} }}")
        yield f"{operator}: short", not raised(onnx.checker.check_model, model)
        yield f"{operator}: full", bool(raised(onnx.checker.check_model, model, full_check=True))


@claim(
    "99_museum",
    "1. Which arguments are gone?",
    "Only the model, its arguments and the file may be given by position.",
)
def a_fourth_argument_by_position() -> Attempts:
    for exporter in BOTH:
        error = raised(torch.onnx.export, nn.ReLU(), (torch.rand(2),), "x.onnx", {}, dynamo=exporter.dynamo)
        yield f"{exporter}: {error[:70]}", "TypeError" in error
        error = raised(torch.onnx.export, nn.ReLU(), (torch.rand(2),), "x.onnx", dynamo=exporter.dynamo)
        yield f"{exporter}, three", not error


@claim(
    "99_museum",
    "5. What became of Python numbers?",
    "Only the torch.export exporter bakes a Python number that is an *argument*, without a warning.",
)
def numbers_of_each_type_in_both() -> Attempts:
    for value, exporter in itertools.product((2, 2.0, True), BOTH):
        made = tried(Call(lambda x, k: x * k), (torch.rand(2), value), exporter)
        baked = len(made.proto.graph.input) == 1
        yield f"{value}, {exporter}: baked {baked}", baked == (exporter is DEFAULT)


@claim(
    "99_museum",
    "12. Can ONNX hold a branch?",
    "`If` is in ONNX since opset 1, and torch 1.8 wrote it from a script.",
)
def branches_at_every_opset() -> Attempts:
    for opset in range(7, 26):
        text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = a () => (float[2] p) { p = Relu(x) }, else_branch = b () => (float[2] q) { q = Neg(x) }> }"""
        model = parsed(text, opset, 8 if opset < 21 else 10)
        if raised(onnx.checker.check_model, model, full_check=True):
            yield f"opset {opset}: {raised(onnx.checker.check_model, model, full_check=True)[:80]}", False
            continue
        x = np.array([-1.0, 2.0], np.float32)
        sides = [ran(model, np.array(c), x)[0] for c in (True, False)]
        yield f"opset {opset}", close(sides[0], [0, 2]) and close(sides[1], [1, -2])


@claim(
    "99_museum",
    "4. How often does forward run?",
    "The torch.export exporter runs the module on a *FakeTensor*, which has a shape and a type and no numbers, so "
    "nothing is computed (chapter [12](12_modern_exporter.ipynb)).",
)
def what_forward_sees_in_an_export() -> Attempts:
    seen: list[Any] = []

    class Watch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(2))

        def forward(self, x):
            seen.append((type(x).__name__, type(self.weight).__name__))
            return x * self.weight

    for options in ({}, {"dynamic_shapes": ({0: "n"},)}, {"optimize": False}):
        seen.clear()
        exported(Watch(), (torch.rand(2, 2),), DEFAULT, **options)
        yield f"{options}: {set(seen)}", bool(seen) and all("Fake" in kind for kind, _ in seen)


@claim(
    "99_museum",
    "9. How was an image enlarged?",
    "The two modes differ only where one pixel remains: `pytorch_half_pixel` then reads pixel 0, and PyTorch the middle.",
)
def one_pixel_left_of_other_sizes() -> Attempts:
    for size, mode in itertools.product((2, 3, 4, 7), ("linear", "cubic")):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)
        for transformation in ("half_pixel", "pytorch_half_pixel"):
            text = f"""g (float[1,1,1,{size}] x) => (float[1,1,1,1] y) <int64[4] s = {{1, 1, 1, 1}}>
            {{ y = Resize<coordinate_transformation_mode = "{transformation}", mode = "{mode}"> (x, , , s) }}"""
            got = float(ran(parsed(text), x)[0].ravel()[0])
            middle = float(
                nn.functional.interpolate(torch.from_numpy(x), size=(1, 1), mode="bilinear").ravel()[0]
            )
            expected = middle if transformation == "half_pixel" else 0.0
            yield (
                f"{size} pixels, {mode}, {transformation}: {got}",
                abs(got - expected) < 0.2 if mode == "cubic" else close(got, expected),
            )
