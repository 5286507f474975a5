"""English is looked up where it is shown: a message by its template, a finished text as it stands."""

import json
import pickle
import re
import tracemalloc

import pytest

import onnxlab
from onnxlab.diagnosis.messages import explain
from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import exercise
from onnxlab.language import (
    LANGUAGES,
    Speech,
    alternatives,
    chosen_language,
    context,
    speak,
    speaking,
    speech,
    tr,
)
from onnxlab.message import GAP, Message, fill, from_json, with_templates
from onnxlab.notebook.predict.prediction import Prediction
from onnxlab.tables import table

CHINESE = re.compile(r"[\u4e00-\u9fff]")
SPEECH = Speech(
    {
        "right": "\u6b63\u786e",
        "no file": "\u6ca1\u6709\u6587\u4ef6",
        "What?": "\u4ec0\u4e48\uff1f",
        "or": "\u6216",
    },
    {
        "error: {reason}": "\u51fa\u9519\uff1a{reason}",
        "{n} node{s}": "{n} \u4e2a\u8282\u70b9",
        "{where}: the model has {n} inputs.": "{where}\uff1a\u6a21\u578b\u6709 {n} \u4e2a\u8f93\u5165\u3002",
        "input {name} is missing": "\u7f3a\u5c11\u8f93\u5165 {name}",
        "Answer: {right}": "\u7b54\u6848\uff1a{right}",
    },
)


@pytest.fixture(autouse=True)
def english_again():
    yield
    speak("en")


def test_without_a_language_everything_is_as_it_stands():
    assert tr("Answer: {right}", right=1) == "Answer: 1"


@pytest.mark.parametrize(
    ("english", "shown"),
    [
        ("right", "\u6b63\u786e"),
        ("\u2713 right", "\u2713 \u6b63\u786e"),  # a mark stands before it
        ("error: no file", "\u51fa\u9519\uff1a\u6ca1\u6709\u6587\u4ef6"),  # the gap is looked up, too
        ("error: rank 3", "\u51fa\u9519\uff1arank 3"),
        ("1 node", "1 \u4e2a\u8282\u70b9"),
        ("2 nodes", "2 \u4e2a\u8282\u70b9"),
        ("look at all the nodes", "look at all the nodes"),  # no number of nodes
        (
            "batch of 1: the model has 2 inputs.",
            "batch of 1\uff1a\u6a21\u578b\u6709 2 \u4e2a\u8f93\u5165\u3002",
        ),
        ("input right is missing", "\u7f3a\u5c11\u8f93\u5165 right"),  # a name is a name
        ("right\nnot known\n2 nodes", "\u6b63\u786e\nnot known\n2 \u4e2a\u8282\u70b9"),
        ("~ Conv c: input x is missing; right", "~ Conv c\uff1a\u7f3a\u5c11\u8f93\u5165 x\uff1b\u6b63\u786e"),
        ("", ""),
    ],
)
def test_a_text_is_found_as_it_stands_by_its_pattern_or_in_parts(english, shown):
    assert SPEECH(english) == shown


def test_the_pattern_that_says_most_itself_comes_first():
    words = Speech({}, {"error: {x}": "1 {x}", "error: no rule for {x}": "2 {x}"})
    assert words("error: no rule for Conv") == "2 Conv"


def test_a_prediction_shows_labels_and_keeps_the_options_of_the_code():
    with speaking(SPEECH):
        guess = Prediction("What?", ["right", "3"])
        assert guess.options == ("right", "3")
        assert repr(guess).splitlines()[1:] == ["  - \u6b63\u786e", "  - 3"]
        guess._widget.chosen = "\u6b63\u786e"
        assert guess.chosen == "right"
        guess.reveal("right")
        assert guess._widget.actual == "\u6b63\u786e"


def test_a_table_is_coloured_by_what_the_code_says_and_aligned_by_what_is_shown():
    with speaking(SPEECH):
        shown = table([{"a": "right", "b": 1}, {"a": "x", "b": 2}])
        assert '<td class="good">\u6b63\u786e</td>' in shown._repr_html_()
        assert repr(shown).splitlines() == ["a     b", "----  -", "\u6b63\u786e  1", "x     2"]


def test_chinese_is_there_and_nothing_else_is():
    onnxlab.speak("zh")
    assert CHINESE.search(tr("Answer: {right}", right=1))
    with pytest.raises(OnnxLabError, match="does not speak 'fr'"):
        onnxlab.speak("fr")
    assert list(LANGUAGES) == ["en", "zh"]


def test_no_pattern_of_the_catalogue_takes_the_place_of_another():
    words = speech("zh")
    wrong = []
    for pattern, translation in words.patterns.items():
        gaps = {gap: "s" if gap in ("s", "s2") else "7" for gap in GAP.findall(pattern)}
        text, expected = fill(pattern, gaps), fill(translation, gaps)
        if words(text) != expected and text not in words.texts:
            wrong.append((pattern, words(text)))
    assert wrong == []


def test_the_name_of_a_node_is_no_number_of_nodes():
    assert speech("zh")("Mul node_mul") == "Mul node_mul"


def test_a_message_is_translated_by_its_template_whatever_fills_it():
    inner = Message("input {name} is missing", name="right")
    message = Message("error: {reason}", reason=inner)
    assert message == "error: input right is missing"
    assert SPEECH(message) == "\u51fa\u9519\uff1a\u7f3a\u5c11\u8f93\u5165 right"
    assert SPEECH(Message.compose("; ", [Message("right"), inner])).startswith("\u6b63\u786e\uff1b")


def test_a_message_that_is_cut_at_more_than_its_length_stays_one():
    message = Message("{n} node{s}", n=2, s="s")
    assert SPEECH(message[:7]) == "2 \u4e2a\u8282\u70b9"
    assert type(message[:3]) is str


def test_a_mark_before_a_message_stays_and_its_sentences_are_joined_without_a_space():
    nodes = Message("{n} node{s}", n=2, s="s")
    assert SPEECH(Message("~ {before}: {changes}", before="Relu y", changes=nodes)) == (
        "~ Relu y\uff1a2 \u4e2a\u8282\u70b9"
    )
    message = (
        "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x for the following "
        "indices\n index: 0 Got: 3 Expected: 1\n Please fix either the inputs/outputs or the model."
    )
    cause = speech("zh")(explain(message)[0].cause)
    assert re.search(r"\u3002x .*3.* 1\u3002$", cause), cause


def test_a_finished_sentence_of_the_package_is_not_taken_apart():
    sentence = "The axis {name!r} runs at {runs} and fails at {bad}: {refused}"
    message = Message(sentence, name="n", runs="2, 3", bad="4", refused="no such size")
    assert CHINESE.search(speech("zh")(message))
    assert speech("zh")(str.__str__(message)) == message


def test_the_title_of_a_part_is_the_exporter_and_what_is_asked_of_it():
    part = exercise("branch-on-data")[1].parts[0]
    assert part == "TorchScript: an If is in the graph"
    assert speech("zh")(part).startswith("TorchScript\uff1a")


def test_a_message_comes_back_from_a_file_and_from_another_process():
    message = Message("error: {reason}", reason=Message("input {name} is missing", name="x"))
    stored = json.dumps(with_templates({"message": message, "old": "error: no file"}))
    read = json.loads(stored, object_hook=from_json)
    assert [read, SPEECH(read["message"])] == [
        {"message": message, "old": "error: no file"},
        SPEECH(pickle.loads(pickle.dumps(message))),
    ]
    assert SPEECH(read["old"]) == "\u51fa\u9519\uff1a\u6ca1\u6709\u6587\u4ef6"


def test_a_message_that_another_process_wrote_cannot_reach_into_values_or_grow():
    for template, values in [("{a.__class__}", {"a": "x"}), ("{a}" * 9, {"a": "x" * 500}), ("{a}", {"a": 1})]:
        read = json.loads(json.dumps({"template": template, "values": values}), object_hook=from_json)
        assert "<class" not in str(read)
        assert not isinstance(read, str) or len(read) <= 2000


def test_a_message_that_another_process_wrote_takes_no_memory():
    """A submission's record may have a megabyte, which a template could repeat a thousand times."""
    written = {"template": "{a}" * 600, "values": {"a": "x" * 100_000}}
    tracemalloc.start()
    try:
        assert len(from_json(written)) == 2000
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


WHERE = context(["the first", "neither"])
PLACED = Speech(
    {"neither": "1", "input": "2", "none": "3"},
    {"attribute {name} {before} -> {after}": "{name} {before} -> {after}", "names: {names}": "{names}"},
    contexts={WHERE: {"neither": "4"}, "{before}": {"nothing": "5"}},
)


def test_a_word_that_stands_alone_is_translated_for_the_texts_that_it_stands_among():
    with speaking(PLACED):
        assert [tr("neither", ["the first", "neither"]), tr("neither", ["a", "neither"]), tr("neither")] == [
            *"411"
        ]
        assert repr(Prediction("?", ["the first", "neither"])).splitlines()[1:] == ["  - the first", "  - 4"]
        assert repr(table([{"the first": "neither", "neither": 0}])).splitlines()[::2] == [
            "the first  4",
            "4          0",
        ]


def test_the_name_of_a_value_is_never_translated():
    assert PLACED("attribute input nothing -> input") == "input 5 -> input"
    assert [PLACED("names: input"), PLACED("names: none")] == ["input", "3"]
    change = Message("input {name} {before} -> {after}", name="0", before="input", after="output")
    assert speech("zh")(change) == "\u8f93\u5165 0 input -> output"


def test_what_can_be_chosen_is_joined_for_the_language():
    assert alternatives(["Neg", "Abs"]) == "Neg or Abs"
    speak("zh")
    assert alternatives(["Neg", "Abs"]) == "Neg / Abs"


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"ONNXLAB_LANGUAGE": "zh"}, "zh"),
        ({"ONNXLAB_LANGUAGE": "zh_CN"}, "zh"),
        ({"ONNXLAB_LANGUAGE": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
        ({"ONNXLAB_LANGUAGE": "zh-CN"}, "zh"),
        ({"ONNXLAB_LANGUAGE": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"ONNXLAB_LANGUAGE": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"ONNXLAB_LANGUAGE": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_MESSAGES": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "zh_TW", "LC_MESSAGES": "en_US", "LANG": "C"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
    ],
    ids=str,
)
def test_the_variable_chooses_the_language_before_the_locale(variables, language, monkeypatch):
    for name in ("ONNXLAB_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert chosen_language() == (language, [])
    assert chosen_language(["--language", "zh_CN", "x"]) == ("zh", ["x"])  # the option before both


def test_the_option_stands_anywhere_before_the_end_of_the_options():
    assert chosen_language(["--language", "zh", "doctor", "m.onnx"]) == ("zh", ["doctor", "m.onnx"])
    assert chosen_language(["doctor", "m.onnx", "--language=zh"]) == ("zh", ["doctor", "m.onnx"])
    assert chosen_language(["why", "--", "--language", "fr"]) == ("en", ["why", "--", "--language", "fr"])


@pytest.mark.parametrize("arguments", [["--language", "fr"], ["--language"], ["--language="], []])
def test_an_unknown_language_is_refused_with_those_that_are_spoken(arguments, monkeypatch):
    monkeypatch.setenv("ONNXLAB_LANGUAGE", "zh" if arguments else "fr")
    with pytest.raises(OnnxLabError, match=r"Its languages are en, zh\.") as refused:
        chosen_language(arguments)
    assert refused.value.why.startswith("--language" if arguments else "ONNXLAB_LANGUAGE")


def test_sentences_are_translated_one_by_one():
    words = Speech({"today": "\u4eca\u5929", "One is so.": "\u4e00\u3002", "Two too.": "\u4e8c\u3002"}, {})
    assert words("today, as before") == "today, as before"
    assert words("One is so. Two too.") == "\u4e00\u3002\u4e8c\u3002"
    for nonsense in ("." * 5000, "a: " * 5000 + "b"):
        assert words(nonsense) == nonsense
    assert words("One is so. Three as well.") == "One is so. Three as well."
