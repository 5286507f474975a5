"""Every recipe on every ordinary model and with both exporters; and files made wrong, which it must find.

`docs/ordinary.md` shows the table to readers.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import make_node

from tests.ordinary.bench import MODELS
from tests.ordinary.expectations import EXPORT, RIGHT, expected, table, tried
from tests.ordinary.exported import NotExported, exported
from tests.ordinary.recipes import CALLS, JUDGES, NOT_TRIED, NOTEBOOKS, outcome, tagged

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("remembered_translations")]


def said(recipe: str, model: str, exporter: str) -> str:
    if recipe != EXPORT:
        return outcome(recipe, exported(model, exporter))
    try:
        exported(model, exporter)
    except NotExported as error:
        return str(error)
    return RIGHT


REPEATING = {
    *("bert_from_transformers", "encoder_additive_mask"),  # as encoder_boolean_mask and encoder_by_keywords
    *("decoder_cache_dictionary", "lstm_tagger"),  # as decoder_cache_list, and nested outputs
    "channels_last",
}
"""Models that say nothing which a neighbour does not say: `course.py test --all` tries them too."""


def differences(recipe: str, exporter: str, models: Sequence[str]) -> Iterator[str]:
    for model in models:
        exported_at_all = recipe == EXPORT or expected(EXPORT, model, exporter) == RIGHT
        if not exported_at_all or not tried(recipe, model, exporter):
            continue
        want, got = expected(recipe, model, exporter), said(recipe, model, exporter)
        if want != got if RIGHT in (want, got) else want not in got:
            yield f"{model}, {exporter}: {' '.join(got.split())[:300]!r}, expected {want!r}"


class OnEveryModel:
    exporter: str

    @pytest.mark.parametrize("recipe", [EXPORT, *CALLS])
    def test_a_recipe_is_right_or_says_why_not(self, recipe, request):
        models = [name for name in MODELS if name not in REPEATING or request.config.getoption("--all")]
        assert not list(differences(recipe, self.exporter, models))


class TestTorchExport(OnEveryModel):  # a class each: two workers share the exports out
    exporter = "torch.export"


class TestTorchScript(OnEveryModel):
    exporter = "TorchScript"


def negated(model: onnx.ModelProto) -> None:
    """The largest weight has the other sign."""
    weight = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), weight.name))


def frozen(model: onnx.ModelProto) -> None:
    """The named axes are numbers that only the example has."""
    for value in (*model.graph.input, *model.graph.output):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_value = 2


def dropped(model: onnx.ModelProto) -> None:
    """The last output is missing."""
    del model.graph.output[-1]


def rewired(model: onnx.ModelProto, name: str, *nodes: onnx.NodeProto) -> None:
    """What reads an input reads the result of more nodes, called "instead"."""
    for node in model.graph.node:
        node.input[:] = ["instead" if read == name else read for read in node.input]
    kept = [*model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *kept])
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "one"))


def heedless(model: onnx.ModelProto) -> None:
    """The padding counts as tokens."""
    rewired(model, "mask", make_node("Max", ["mask", "one"], ["instead"]))


def counting(model: onnx.ModelProto) -> None:
    """The positions count the padding."""
    ones = make_node("Max", ["mask", "one"], ["ones"])
    total = make_node("CumSum", ["ones", "one"], ["total"])
    rewired(model, "positions", ones, total, make_node("Sub", ["total", "one"], ["instead"]))


FAULTS = {"17b check_padding": (heedless, counting, frozen)}  # it compares the file with itself
PLANTED = [(recipe, fault) for recipe in JUDGES for fault in FAULTS.get(recipe, (negated, frozen, dropped))]


@pytest.mark.parametrize(("recipe", "fault"), PLANTED)
def test_a_file_made_wrong_is_found(recipe, fault: Callable[[onnx.ModelProto], None]):
    good = exported(JUDGES[recipe], "torch.export")
    assert outcome(recipe, good) == RIGHT
    bad = good.folder / "bad.onnx"
    model = onnx.load(good.path)
    fault(model)
    onnx.save(model, bad)
    folder = good.folder / "made"
    folder.mkdir()
    wrong = dataclasses.replace(exported(good.name, "torch.export"), path=bad, folder=folder)
    assert outcome(recipe, wrong) != RIGHT


def test_every_recipe_is_tried_or_says_why_not():
    listed = {*CALLS, *NOT_TRIED} - {"01 check_export"}  # the package's own
    recipes = {path.name.partition("_")[0]: tagged(path) for path in NOTEBOOKS.glob("*.ipynb")}
    assert {chapter for chapter, functions in recipes.items() if functions} == {n.split()[0] for n in listed}
    assert all(name.split()[1] in recipes[name.split()[0]] for name in listed)


def test_the_table_knows_the_models_and_the_recipes():
    models = [name for field in table()["models"].values() for name in field]
    assert set(MODELS) <= set(models)
    assert len(set(models)) == len(models) >= 40
    assert set(table()) - {"models", EXPORT} <= set(CALLS)
    listed = [
        name
        for kinds in table().values()
        for sentences in kinds.values()
        for names in sentences.values()
        if isinstance(names, list)
        for name in names
    ]
    assert {name.partition(",")[0] for name in listed} <= {*models, "*"}
