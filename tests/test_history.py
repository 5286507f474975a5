"""The recordings are complete, without paths, and agree with what the course says about them."""

import itertools
import json
import re
from pathlib import Path

import pytest

import onnxlab
from onnxlab.errors import UnknownRecord
from onnxlab.history import (
    RUNTIMES,
    VERSIONS,
    keys,
    names,
    recorded_fact,
    recorded_graph,
    recorded_runtime,
)
from onnxlab.model.graph import op_types
from onnxlab.model.load import load
from onnxlab.runtime.session import open_session

FOLDER = Path(onnxlab.__file__).parent / "assets" / "recorded"
ABSOLUTE = re.compile(
    rb"(?<![\w.:])/(?:home|root|work|tmp|usr|opt|mnt|var|Users)/|[A-Za-z]:\\\\?(?:Users|Windows)"
)


# Div takes no uint8, and 1.7.1 compared a float with an int64: the runtimes of the time refused these, too.
UINT8 = {"lshift_uint8_o9", "rshift_uint8_o9"}
REFUSED = {"1.7.1": UINT8 | {"if_script"}, "1.8.1": UINT8}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_graph_is_valid_and_todays_runtime_takes_it(version):
    assert names(version)
    refused = set()
    for name in names(version):
        model = recorded_graph(version, name)
        assert model.producer_name == "pytorch", name
        assert version.startswith(model.producer_version), name
        assert load(FOLDER / version / f"{name}.onnx") == model
        assert not any([model.doc_string, model.graph.doc_string, *(n.doc_string for n in model.graph.node)])
        try:
            open_session(model)
        except Exception:  # the runtime raises several classes
            refused.add(name)
    assert refused == REFUSED.get(version, set())


def test_no_shipped_file_holds_a_path_of_a_machine():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert len(files) > 250
    for file in files:
        content = file.read_bytes()
        assert not ABSOLUTE.search(content), file
        assert b"site-packages" not in content, file


def test_the_pattern_of_paths_matches_paths():
    for path in (b'"/home/me/x.py"', b"(/root/.cache)", rb"C:\Users\me", b"File /usr/lib/python3"):
        assert ABSOLUTE.search(path)


def test_the_recordings_are_small():
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.json")}
    assert sizes.pop("atlas.json") < 750_000  # thousands of operators by exporter, opset and element type
    graphs = (path.stat().st_size for path in FOLDER.rglob("*/*") if path.is_file())
    assert sum(sizes.values()) + sum(graphs) < 500_000


@pytest.mark.parametrize("version", VERSIONS)
def test_the_facts_are_those_of_that_version(version):
    assert recorded_fact(version, "versions")["torch"].startswith(version)
    assert len(keys(version)) > 70
    for key in keys(version):
        json.dumps(recorded_fact(version, key))


def test_a_fact_may_be_changed_by_the_caller():
    recorded_fact("1.8.1", "nine_cells").clear()
    assert len(recorded_fact("1.8.1", "nine_cells")) == 9


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_exports_agree_with_recorded_graphs(version):
    for key, name in {"ch_static": "model_static", "no_names": "no_names", "if_trace": "if_trace"}.items():
        fact = recorded_fact(version, key)
        assert fact["ok"]
        assert fact["graph"]["nodes"] == op_types(recorded_graph(version, name))


def test_an_unknown_version_names_the_known_ones():
    for query in (
        lambda: names("1.6.0"),
        lambda: recorded_graph("../1.8.1", "a"),
        lambda: recorded_fact("", "item"),
    ):
        with pytest.raises(UnknownRecord, match=r"Nothing was recorded with torch .*\n.*1\.7\.1, 1\.8\.1"):
            query()


def test_an_unknown_name_names_similar_ones():
    with pytest.raises(
        UnknownRecord, match=r"no recorded graph 'model_2_scrip' .*\nNear it: model_2_script.*\n.*names\("
    ):
        recorded_graph("1.8.1", "model_2_scrip")
    with pytest.raises(UnknownRecord, match=r"no recorded fact 'asinh' .*\nNear it: .*asinh.*\n.*keys\("):
        recorded_fact("1.8.1", "asinh")
    with pytest.raises(UnknownRecord, match="no recorded graph"):
        recorded_graph("1.8.1", "../1.9.1/a")


def test_a_runtime_that_was_not_recorded_names_those_that_were():
    with pytest.raises(UnknownRecord, match=r"ONNX Runtime 1\.14\.0\.\n.*1\.15\.1"):
        recorded_runtime("1.14.0")


def test_a_newer_runtime_loads_all_that_an_older_one_loads():
    facts = [recorded_runtime(release) for release in RUNTIMES]
    assert [fact["version"] for fact in facts] == list(RUNTIMES)
    for key in ("newest_ir", "newest_opset"):
        assert [fact[key] for fact in facts] == sorted(fact[key] for fact in facts)
    for older, newer in itertools.pairwise(facts):
        assert older["files"].keys() == newer["files"].keys()
        right = {name for name, outcome in older["files"].items() if outcome == "right"}
        assert right <= {name for name, outcome in newer["files"].items() if outcome == "right"}
