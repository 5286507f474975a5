"""The links of single operators against real exports, by both exporters."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 (its usual name)

from onnxlab.exporters.export import Exporter, Stage, export
from onnxlab.model.graph import op_types
from tools.atlas.support import State, support

pytestmark = pytest.mark.usefixtures("remembered_translations")
OPSET = 20
x, y = torch.rand(3, 4) + 0.1, torch.rand(3, 4) + 0.1
image, line = torch.rand(1, 2, 6, 6), torch.rand(1, 2, 6)
square = torch.rand(3, 3) + 3 * torch.eye(3)
integers, mask = torch.tensor([3, 5, 6]), torch.tensor([True, False, True])
pooled, where = F.max_pool2d(image, 2, return_indices=True)
ops = torch.ops.aten

# The operator, a function that calls it, and its inputs.
SAMPLE = {
    "aten::abs": (torch.abs, x),
    "aten::acosh": (torch.acosh, x + 1),
    "aten::add_": (lambda a: a.clone().add_(1), x),
    "aten::addcdiv": (torch.addcdiv, x, y, y),
    "aten::addmm": (torch.addmm, square, square, square),
    "aten::adaptive_avg_pool1d": (lambda a: F.adaptive_avg_pool1d(a, 3), line),
    "aten::argmax": (lambda a: a.argmax(1), x),
    "aten::asinh": (torch.asinh, x),
    "aten::atan2": (torch.atan2, x, y),
    "aten::atanh": (torch.atanh, x / 2),
    "aten::avg_pool2d": (lambda a: F.avg_pool2d(a, 2), image),
    "aten::bilinear": (F.bilinear, x, y, torch.rand(2, 4, 4)),
    "aten::bitwise_not": (torch.bitwise_not, mask),
    "aten::bitwise_right_shift.Tensor": (torch.bitwise_right_shift, integers, integers),
    "aten::__rshift__.Scalar": (lambda a: a >> 1, integers),
    "aten::__rshift__.Tensor": (lambda a, b: a >> b, integers, integers),
    "aten::bucketize.Tensor": (torch.bucketize, x, torch.tensor([0.2, 0.5])),
    "aten::cdist": (torch.cdist, x, y),
    "aten::celu": (F.celu, x),
    "aten::linalg_cholesky_ex": (lambda a: ops.linalg_cholesky_ex(a @ a.T)[0], square),
    "aten::clamp": (lambda a: a.clamp(0, 1), x),
    "aten::conv2d": (lambda a, w: F.conv2d(a, w), image, torch.rand(3, 2, 3, 3)),
    "aten::cosh": (torch.cosh, x),
    "aten::cosine_similarity": (F.cosine_similarity, x, y),
    "aten::cross": (torch.linalg.cross, square, square),
    "aten::cummax": (lambda a: a.cummax(0)[0], x),
    "aten::cumprod": (lambda a: a.cumprod(0), x),
    "aten::cumsum": (lambda a: a.cumsum(0), x),
    "aten::diff": (torch.diff, x),
    "aten::digamma": (torch.digamma, x),
    "aten::dist": (torch.dist, x, y),
    "aten::dot": (torch.dot, x[0], y[0]),
    "aten::einsum": (lambda a, b: torch.einsum("ij,kj->ik", a, b), x, y),
    "aten::erf": (torch.erf, x),
    "aten::erfc": (torch.erfc, x),
    "aten::erfinv": (torch.erfinv, x / 2),
    "aten::expm1": (torch.expm1, x),
    "aten::flip": (lambda a: a.flip(0), x),
    "aten::frac": (torch.frac, x),
    "aten::gather": (lambda a, i: a.gather(0, i), x, torch.zeros(2, 4, dtype=torch.int64)),
    "aten::gelu": (F.gelu, x),
    "aten::glu": (F.glu, x),
    "aten::grid_sampler": (
        lambda a, g: F.grid_sample(a, g, align_corners=True),
        image,
        torch.rand(1, 3, 3, 2),
    ),
    "aten::hardswish": (F.hardswish, x),
    "aten::heaviside": (torch.heaviside, x, y),
    "aten::histc": (lambda a: torch.histc(a, 4, 0.0, 1.0), x),
    "aten::hstack": (lambda a, b: torch.hstack([a, b]), x, y),
    "aten::huber_loss": (F.huber_loss, x, y),
    "aten::hypot": (torch.hypot, x, y),
    "aten::i0": (torch.i0, x),
    "aten::inverse": (torch.inverse, square),
    "aten::kthvalue": (lambda a: a.kthvalue(2)[0], x),
    "aten::lerp.Tensor": (torch.lerp, x, y, y),
    "aten::lgamma": (torch.lgamma, x),
    "aten::linalg_det": (torch.linalg.det, square),
    "aten::logaddexp": (torch.logaddexp, x, y),
    "aten::logcumsumexp": (lambda a: a.logcumsumexp(0), x),
    "aten::logit": (torch.logit, x / 2),
    "aten::masked_select": (lambda a, m: a.masked_select(m), x[:, :3], mask),
    "aten::max_unpool2d": (lambda a, i: ops.max_unpool2d(a, i, [6, 6]), pooled, where),
    "aten::median": (torch.median, x),
    "aten::mish": (F.mish, x),
    "aten::nan_to_num": (torch.nan_to_num, x),
    "aten::nextafter": (torch.nextafter, x, y),
    "aten::pixel_shuffle": (lambda a: F.pixel_shuffle(a, 2), torch.rand(1, 4, 3, 3)),
    "aten::polygamma": (lambda a: torch.polygamma(1, a), x),
    "aten::prelu": (F.prelu, x, torch.rand(1)),
    "aten::relu_": (lambda a: a.clone().relu_(), x),
    "aten::renorm": (lambda a: a.renorm(2, 0, 1.0), x),
    "aten::rot90": (torch.rot90, x),
    "aten::searchsorted.Tensor": (torch.searchsorted, torch.tensor([0.2, 0.5]), x),
    "aten::signbit": (torch.signbit, x),
    "aten::silu": (F.silu, x),
    "aten::sinh": (torch.sinh, x),
    "aten::softplus": (F.softplus, x),
    "aten::sort": (lambda a: a.sort()[0], x),
    "aten::square": (torch.square, x),
    "aten::std": (torch.std, x),
    "aten::svd": (lambda a: torch.svd(a)[1], x),
    "aten::take": (torch.take, x, integers),
    "aten::trapezoid": (torch.trapezoid, x),
    "aten::tril": (torch.tril, x),
    "aten::unfold": (lambda a: a.unfold(2, 3, 1), line),
    "aten::upsample_bicubic2d.vec": (lambda a: F.interpolate(a, scale_factor=2.0, mode="bicubic"), image),
    "aten::vander": (torch.vander, x[0]),
    "aten::xlogy.Tensor": (torch.xlogy, x, y),
}


class Single(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Several(torch.nn.Module):
    """Operators side by side, each on inputs of its own."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *inputs):
        rest = list(inputs)
        return tuple(function(*[rest.pop(0) for _ in range(count)]) for function, count in self.calls)


def exported(name, exporter):
    function, *inputs = SAMPLE[name]
    return export(Single(function).eval(), tuple(inputs), exporter, opset_version=OPSET)


def all_run(names, exporter):
    """Whether some operators export, load and run in one model: then each of them does."""
    calls = [(SAMPLE[name][0], len(SAMPLE[name]) - 1) for name in names]
    inputs = tuple(value.clone() for name in names for value in SAMPLE[name][1:])
    return export(Several(calls).eval(), inputs, exporter, opset_version=OPSET).ok


def broken_at(name, exporter) -> str:
    """The link at which a real export breaks."""
    failure = exported(name, exporter).failure
    if failure is None:
        return ""
    early = (Stage.CAPTURE, Stage.DECOMPOSE, Stage.TRANSLATE, Stage.SERIALISE)
    return "rule" if failure.stage in early else f"after the rule: {failure.stage}"


def test_the_sample_is_large_and_every_rule_is_known():
    answers = [support(name, exporter, OPSET) for name in SAMPLE for exporter in Exporter]
    assert len(SAMPLE) >= 60
    assert not [answer for answer in answers if answer.rule.state is State.UNKNOWN]
    ways = {answer.rule.text.partition(":")[0].partition(" of ")[0] for answer in answers}
    assert {"own rule", "by decomposition", "no rule", "rule"} <= ways


@pytest.mark.slow
@pytest.mark.parametrize("exporter", Exporter)
def test_the_missing_link_is_where_an_export_breaks(exporter):
    expected = {name: support(name, exporter, OPSET).missing for name in SAMPLE}
    good = [name for name, missing in expected.items() if not missing]
    groups = [good[start : start + 12] for start in range(0, len(good), 12)]
    # An export of twelve costs little more than an export of one. If it fails, each is exported alone.
    alone = [name for group in groups if not all_run(group, exporter) for name in group]
    broken = {name: broken_at(name, exporter) for name in (*alone, *(set(SAMPLE) - set(good)))}
    wrong = [
        f"{name}: expected {expected[name]!r}, is {at!r}"
        for name, at in broken.items()
        if expected[name] != at
    ]
    assert not wrong, wrong
    assert len(good) > 30
    assert len(broken) > 10


@pytest.mark.slow
def test_the_operators_written_are_among_those_that_the_sources_name():
    """By the TorchScript exporter, which is fast; without those that constant folding leaves."""
    for name in SAMPLE:
        answer = support(name, Exporter.TORCHSCRIPT, OPSET)
        if not answer.missing:
            written = set(op_types(exported(name, Exporter.TORCHSCRIPT)))
            assert written - {"Constant", "Identity"} <= set(answer.writes), name


def test_a_rule_can_refuse_an_element_type_although_no_link_is_missing():
    name = "aten::bitwise_not"
    assert broken_at(name, Exporter.TORCHSCRIPT) == support(name, Exporter.TORCHSCRIPT, OPSET).missing == ""
    refused = export(Single(torch.bitwise_not).eval(), integers, Exporter.TORCHSCRIPT, opset_version=OPSET)
    assert "bitwise Not for non-boolean" in refused.failure.message
