"""The atlas that the course ships against the installed packages."""

import pytest

from onnxlab.judges.lab04_asinh.missing_rules import REFUSING
from onnxlab.operators import known_operators, links, recording
from tools.atlas import support
from tools.atlas.recording import RECORDING, recorded, versions
from tools.atlas.rules import torchscript_rule

pytestmark = pytest.mark.skipif(
    recording()["versions"] != versions(), reason="recorded with other versions than the installed ones"
)


@pytest.mark.slow
def test_the_recording_is_what_the_installed_packages_say():
    assert RECORDING.read_text("utf-8") == recorded(), "python -m tools.atlas writes it anew"


def test_the_recording_has_every_operator():
    assert known_operators() == support.known_operators()


@pytest.mark.parametrize(
    "operator", ["aten::relu_", "aten::grid_sampler", "aten::huber_loss", "aten::__interpolate"]
)
@pytest.mark.parametrize("opset", [7, 9, 17, 18, 20, 24, 28])
def test_the_links_are_read_from_the_recording_as_computed(operator, opset):
    for exporter in support.Exporter:
        found = support.support(operator, exporter, opset)
        computed = [link.text for link in (found.operator, found.rule, found.schema, found.kernel)]
        assert [link.text for link in links(operator, exporter.value, opset)] == computed


def test_lab04_knows_the_rules_that_only_raise():
    names = [*known_operators(), "aten::scan"]
    refusing = {
        (name.removesuffix("_"), opset)
        for name in names
        for opset in range(9, 21)
        if (rule := torchscript_rule(name, opset)) and rule.refuses
    }
    assert refusing == {(name, opset) for name, last in REFUSING.items() for opset in range(9, last + 1)}
