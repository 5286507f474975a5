import itertools
import json

import pytest

from onnxlab import atlas
from onnxlab.errors import OnnxLabError
from onnxlab.exporters.export import Exporter
from onnxlab.notebook.atlas.view import EXCERPT, LINKS, marked, packed
from onnxlab.operators.support import known_operators, support
from tests.support.displayed import outputs
from tools.record_atlas import RECORDING, recorded

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def data():
    return json.loads(packed())


def unpacked(data, name, exporter, opset):
    """The marks and texts that the browser reads for one operator."""
    (spans,) = [
        entry[1 + data["exporters"].index(exporter)] for entry in data["operators"] if entry[0] == name
    ]
    span = [span for span in spans if span[0] <= opset][-1]
    links = [data["links"][number] for number in span[1:5]]
    return [f"{mark} {data['texts'][text]}" for mark, text, _ in links]


@pytest.mark.parametrize("opset", [7, 8, 9, 11, 17, 18, 20, 21, 24, 27, 28])
@pytest.mark.parametrize("exporter", Exporter)
def test_the_browser_reads_what_facts_say(data, exporter, opset):
    for name in (*EXCERPT, "relu_", "grid_sampler", "scaled_dot_product_attention", "__interpolate"):
        cells = marked(support(f"aten::{name}", exporter, opset))
        assert unpacked(data, name, exporter.value, opset) == [cells[link] for link in LINKS[:4]]


def test_every_operator_is_in_it_and_every_span_is_a_change(data):
    assert [f"aten::{entry[0]}" for entry in data["operators"]] == list(known_operators())
    for _, *by_exporter in data["operators"]:
        for spans in by_exporter:
            assert spans[0][0] == data["opsets"][0]
            assert all(span[1:] != following[1:] for span, following in itertools.pairwise(spans))


def test_the_web_site_has_the_atlas_of_the_installed_packages():
    assert RECORDING.read_text("utf-8") == recorded(), "python -m tools.record_atlas writes it anew"


def test_the_missing_link_is_seen_at_once():
    rows = {row["exporter"]: row for row in atlas("asinh").rows()}
    assert rows["TorchScript"]["missing"] == "\u2717 rule"
    assert rows["torch.export"]["missing"] == "\u2713 none"
    (early,) = atlas("asinh", opset=8, exporter="TorchScript").rows()
    assert early["schema"] == "\u2717 Asinh only since 9"
    (shift,) = atlas("bitwise_right_shift", exporter="torch.export", element="int16").rows()
    assert shift["kernel"] == "\u2717 no kernel for int16: BitShift"
    assert shift["missing"] == "\u2717 kernel"


def test_the_saved_form_is_a_table_that_needs_no_script():
    saved = atlas(excerpt=["relu"]).saved()
    assert saved.count("<tr>") == 3
    assert 'class="good"' in saved
    assert "<script" not in saved


@pytest.mark.parametrize(
    "arguments",
    [{"exporter": "onnx"}, {"missing": "tooth"}, {"element": "float32"}, {"excerpt": ["no_such_operator"]}],
)
def test_an_unknown_argument_is_told(arguments):
    with pytest.raises(OnnxLabError, match=next(iter(arguments.values()))[0][:5]):
        atlas(**arguments)


@pytest.mark.parametrize("opset", [6, 99, "20"])
def test_an_opset_outside_the_slider_is_told(opset):
    with pytest.raises(OnnxLabError, match=str(opset)):
        atlas(opset=opset)


def test_a_notebook_keeps_the_excerpt_and_shows_the_widget():
    first, second = outputs(atlas()), outputs(atlas())
    assert [sorted(bundle) for bundle in first] == [["text/html", "text/plain"], [VIEW]]
    assert first[0] == second[0]
