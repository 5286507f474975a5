"""A sample of what measurements/ recorded, measured again with the installed packages.

The whole is measured where the pins move: measurements/README.md.
"""

import re
import sys

import pytest
import torch

from measurements import train_detector, train_digits, train_gpt
from measurements.atlas import support
from measurements.atlas.recording import versions
from measurements.back_ends.__main__ import HERE, measure
from measurements.back_ends.models import Files, by_hand, pooling
from measurements.record_runtimes import measured, write_versions
from onnxlab import digits, gpt, history
from onnxlab.networks import detection
from onnxlab.operators import known_operators, links, recording

pytestmark = pytest.mark.slow
same_versions = pytest.mark.skipif(
    recording()["versions"] != versions(), reason="recorded with other versions than the installed ones"
)
OPERATORS = known_operators()[:: len(known_operators()) // 20]


@pytest.fixture(autouse=True)
def one_thread():
    """The networks are small: they gain nothing from a second thread, which would wait in a loop."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@same_versions
@pytest.mark.parametrize("operator", ["aten::relu_", "aten::grid_sampler", "aten::__interpolate", *OPERATORS])
def test_the_links_of_an_operator_are_as_recorded(operator):
    for exporter in support.Exporter:
        for opset in (7, 17, 18, 20, 26):
            computed = support.support(operator, exporter, opset)
            texts = [
                part.text for part in (computed.operator, computed.rule, computed.schema, computed.kernel)
            ]
            assert [link.text for link in links(operator, exporter.value, opset)] == texts


def test_the_weights_reach_the_documented_quality(request):
    text = (request.config.rootpath / "docs" / "weights.md").read_text(encoding="utf-8")
    assert set(train_gpt.mistakes(gpt.load_trained()).values()) == {0}
    assert train_digits.accuracy(digits.load_trained(), digits.pictures()) > 0.99
    reached = train_detector.quality(detection.load_trained())
    figures = re.search(r"([\d.]+) % of the shapes.*?([\d.]+) % of the boxes.*?IoU ([\d.]+)", text)
    documented = [float(figures[1]) / 100, float(figures[2]) / 100, float(figures[3])]
    assert documented == pytest.approx([reached.recall, reached.precision, reached.overlap], abs=0.003)


def test_the_super_resolution_network_beats_bicubic_as_documented(request):
    pytest.importorskip("skimage")
    from measurements.train_super_resolution import evaluate
    from onnxlab.networks.super_resolution import load_trained

    text = (request.config.rootpath / "docs" / "weights.md").read_text(encoding="utf-8")
    for score in evaluate(load_trained()):
        (row,) = re.findall(rf"^\| {score.picture.partition('.')[0]}\b.*$", text, re.MULTILINE)
        documented = [float(cell) for cell in row.strip("| ").split("|")[1:]]
        assert documented == pytest.approx([score.bicubic, score.network, score.gain], abs=0.011)


def test_the_installed_back_ends_do_what_is_recorded(tmp_path):
    files = Files(tmp_path)
    for write in (pooling, by_hand):
        write(files)
    models = history.back_ends()["models"]
    assert files.titles.items() <= {name: model["shows"] for name, model in models.items()}.items()
    for name in ("function", "indices_D"):  # right, wrong and refused
        for program in HERE:
            verdict = measure(program, sys.executable, tmp_path, name)["verdict"]
            assert verdict == models[name]["results"][program]["verdict"], (program, name)


def test_the_installed_runtime_reads_at_least_what_the_newest_recorded_one_does(tmp_path):
    write_versions(tmp_path)
    facts, newest = measured(sys.executable, tmp_path), history.recorded_runtime(history.RUNTIMES[-1])
    assert facts["newest_ir"] >= newest["newest_ir"]
    assert facts["newest_opset"] >= newest["newest_opset"]
