import itertools

import pytest

from onnxlab import atlas
from onnxlab.errors import OnnxLabError
from onnxlab.operators import links, recording
from tests.support.displayed import outputs

VIEW = "application/vnd.jupyter.widget-view+json"


def test_every_span_of_the_recording_is_a_change():
    data = recording()
    for _, *by_exporter in data["operators"]:
        for spans in by_exporter:
            assert spans[0][0] == data["opsets"][0]
            assert all(span[1:] != following[1:] for span, following in itertools.pairwise(spans))


@pytest.mark.parametrize(("opset", "schema"), [(7, "Asinh only since 9"), (9, "Asinh 9"), (22, "Asinh 22")])
def test_the_links_are_those_of_the_opset(opset, schema):
    assert links("aten::asinh", "torch.export", opset)[2].text == schema


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
    [
        *({"exporter": "onnx"}, {"missing": "tooth"}, {"element": "float32"}, {"excerpt": ["no_such"]}),
        *({"opset": 6}, {"opset": 99}, {"opset": "20"}),
    ],
    ids=str,
)
def test_an_unknown_argument_is_named(arguments):
    [value] = arguments.values()
    with pytest.raises(OnnxLabError, match=value[0] if isinstance(value, list) else repr(value)):
        atlas(**arguments)


def test_a_notebook_keeps_the_excerpt_and_shows_the_widget():
    first, second = outputs(atlas()), outputs(atlas())
    assert [sorted(bundle) for bundle in first] == [["text/html", "text/plain"], [VIEW]]
    assert first[0] == second[0]
