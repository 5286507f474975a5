"""A damaged model is drawn and compared, or refused in three lines; no file beside its folder is read."""

import contextlib
import io
from http.server import ThreadingHTTPServer
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxlab.cli import main
from onnxlab.errors import OnnxLabError
from onnxlab.model.diff import diff
from onnxlab.model.graph import dims, edges, op_types, outline, summary, walk
from onnxlab.notebook.graph.saved_form import model_image
from onnxlab.notebook.graph.view import GraphMessage, graph
from tests.hostile.damage import KNOWN, MODELS, SECRET, damaged_models

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """A model's place, with what external weights can point to."""
    place = tmp_path_factory.mktemp("damaged")
    folder = place / "model"
    (folder / "folder").mkdir(parents=True)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "weights").write_bytes(bytes(64))
    (place / "outside").write_bytes(SECRET)
    (place / "other.onnx").write_bytes(MODELS[1])
    return folder / "model.onnx"


@contextlib.contextmanager
def refused_in_three_lines():
    lines: list[str] = []
    try:
        yield
    except OnnxLabError as error:
        lines = str(error).splitlines()
    assert len(lines) <= 3


def private(shown: str | bytes) -> None:
    assert SECRET not in (shown.encode("utf-8", "replace") if isinstance(shown, str) else shown)


def shown(*arguments, **options) -> None:
    """Make every request that a notebook and its page make of a graph."""
    view = graph(*arguments, **options)
    if isinstance(view, GraphMessage):
        view._repr_mimebundle_()
        return
    sent: list[bytes] = []
    view.send = lambda content, buffers=None: sent.extend(buffers or [])
    private(str(view._repr_html_()) + repr(view))
    for number, pane in enumerate(view._panes):
        questions = [{"kind": "model", "grouped": grouped, "pane": number} for grouped in (True, False)]
        places = [f"weight-{place}" for place in range(min(20, len(pane.flat.weights)))]
        questions += [{"kind": "weight", "location": place, "pane": number} for place in places]
        for question in questions:
            view._answer(view, question, [])
    for data in sent:
        private(data)


def queried(path: Path) -> None:
    facts = summary(path)
    op_types(path), outline(path), edges(path), list(walk(path))
    for value in (*facts.inputs[:2], *facts.outputs[:2]):
        dims(path, value.name)


def tried(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for read in (
        lambda: shown(path),
        lambda: shown(path, path.parents[1] / "other.onnx"),
        lambda: shown(path, groups=True),
        lambda: private(model_image(data, ["Relu"])),
        lambda: private(str(diff(path, data))),
        lambda: queried(path),
    ):
        with refused_in_three_lines():
            read()


@pytest.mark.parametrize("data", KNOWN, ids=range(len(KNOWN)))
def test_a_fault_of_an_earlier_reader_stays_repaired(path, data):
    tried(path, data)


@given(damaged_models())
def test_a_damaged_model_is_drawn_or_refused(path, data):
    tried(path, data)


def commanded(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for command in (
        ["doctor", "--seconds", "10", str(path)],
        ["compare", str(path), str(path.parents[1] / "other.onnx")],
        ["open", "--no-browser", str(path)],
    ):
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            patch.object(
                ThreadingHTTPServer, "serve_forever", side_effect=KeyboardInterrupt
            ),  # Ctrl+C ends `open`
        ):
            code = main(command)
        private(out.getvalue())
        assert out.getvalue() or err.getvalue()
        assert code or not err.getvalue()
        assert len(err.getvalue().splitlines()) <= 3


@pytest.mark.parametrize("data", KNOWN[::9], ids=range(0, len(KNOWN), 9))
def test_a_command_answers_or_refuses_a_damaged_model(path, data):
    commanded(path, data)


@settings(max_examples=3)
@given(data=damaged_models())
def test_a_command_answers_or_refuses_any_model(path, data):
    commanded(path, data)


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["Got invalid dimensions", "\x1b[31m", "\n" * 50, "\ud800", "(((", "%s {0}", "x" * 9999]
        )
    ).map(" ".join)
)
def test_why_answers_any_text(message):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        main(["why", "--", message or " "])
    assert out.getvalue() or err.getvalue()
