"""The contract of every exercise: right answers pass, wrong ones fail with a message of their own."""

import re
from pathlib import Path

import onnx
import pytest
from onnx import parser

from onnxlab.labs.kit.checking import check, judge, questions_seed
from onnxlab.labs.kit.exercise import LABS, Exercise, exercise, lab, labs
from onnxlab.labs.kit.outcome import Outcome, Status
from onnxlab.labs.kit.producing import produce
from onnxlab.labs.kit.work import Work
from onnxlab.notebook.language import speech
from onnxlab.runtime.session import open_session
from tests.labs.answers_lab05 import SHIFTS_ARE_RIGHT
from tests.support.labs import WrongAnswer, contracts

pytestmark = pytest.mark.slow  # some hundred exports

CONTRACTS = contracts()
CHINESE = re.compile(r"[\u4e00-\u9fff]")

RIGHT = [(named, number) for named, contract in CONTRACTS.items() for number in range(len(contract.right))]
WRONG = [
    pytest.param(named, answer, id=f"{named}: {answer.name}")
    for named, contract in CONTRACTS.items()
    for answer in contract.wrong
]
# A right model is laid beside each wrong one, unless what is shown is the exporter's, has no part such as was
# asked for, or should not be there. first-divergence shows the two models that it asks about.
NONE_EXPECTED = {
    (named, part.title) for named in ("scales-input", "find-wrong-shift") for part in exercise(named)[1].parts
} | {
    ("cut-between", "what cannot be cut is refused"),
    ("lower-for", "what cannot be lowered is refused"),
    ("safely-registered", "inside the block the rule counts"),  # a rule used below its opset
    ("safely-registered", "no invalid model below the rule's opset"),
}

# Answers without a case to run again, and why.
WITHOUT_CASE = {
    ("dynamic-resize", "a function"): "it is refused before anything is tried",
    ("dynamic-resize", "a module"): "it is refused before anything is tried",
}

# The model that is shown can be handed in.
EXPECTED_CAN_REPLACE = (
    "loop-count-as-input",
    "branch-on-data",
    "batch-safe",
    "untangle",
    "static-on-purpose",
    "asinh-symbolic",
    "asinh-translation",
    "rshift-symbolic",
    "uint8-shift-translation",
    "dynamic-resize",
    "resize-translation",
    "one-pixel-safe",
    "max-unpool-symbolic",
    "fold-batchnorm",
    "cut-between",
    "lower-for",
    "one-file",
    "to-opset-12",
    "equalise",
    "halve",
    "cached-decoder",
    "export-step",
    "append-to-cache",
    "letterbox",
    "best-candidates",
    "suppress",
)
BROKEN = parser.parse_graph("broken (float[n] x) => (float[n] y) { y = Nothing (x) }")


def require_loads(model: bytes | None) -> None:
    assert model is not None
    onnx.checker.check_model(model, full_check=True)
    open_session(onnx.load_model_from_string(model))


def attempt(named: str, functions, seed: int = 0) -> Outcome:
    _, record = exercise(named)
    return check(record, dict(zip(record.answers, functions, strict=True)), seed)


def produced(named: str, folder: Path) -> tuple[Exercise, Work]:
    """What a right answer leaves in a folder, to be judged."""
    _, record = exercise(named)
    answers = dict(zip(record.answers, CONTRACTS[named].right[0], strict=True))
    work = Work(folder, questions_seed(record, 5))
    assert produce(record, answers, work).status is None
    return record, work


def told(outcome: Outcome) -> str:
    """Everything a learner reads."""
    texts = [outcome.message, outcome.where]
    for finding in outcome.findings:
        texts += [finding.message, finding.look_at]
        if finding.difference:
            texts += list(vars(finding.difference).values())
    return "\n".join(texts)


def spoken(outcome: Outcome) -> list[str]:
    """What the course itself says to a learner: no numbers, and nothing of the learner's code."""
    texts = [outcome.message]
    for finding in outcome.findings:
        texts += [finding.title, finding.message, finding.look_at]
    return [text for text in texts if text]


def test_every_exercise_has_a_contract_and_no_other():
    assert set(CONTRACTS) == {each.id for one in labs() for each in one.exercises}


@pytest.mark.parametrize("named", CONTRACTS)
def test_enough_answers_were_tried(named):
    assert len(CONTRACTS[named].right) >= 2
    assert len(CONTRACTS[named].wrong) >= 4
    assert len({answer.says for answer in CONTRACTS[named].wrong}) >= 4  # each with a message of its own


@pytest.mark.parametrize(("named", "number"), RIGHT)
def test_right_answer_passes(named, number):
    outcome = attempt(named, CONTRACTS[named].right[number], seed=20_000 * number)
    assert outcome.status is Status.PASSED, told(outcome)
    assert outcome.points == outcome.possible > 0


@pytest.mark.parametrize("named", CONTRACTS)
def test_right_answer_passes_with_any_test_inputs(named, tmp_path):
    # A mark that depends on the seed of a run would be wrong for a whole class at once.
    record, work = produced(named, tmp_path)
    for seed in range(40):
        for finding in judge(record, work, seed):
            assert finding.holds, f"seed {seed}: {finding.title}: {finding.message} {finding.difference}"


@pytest.mark.parametrize(("named", "answer"), WRONG)
def test_wrong_answer_fails_with_its_message(named, answer: WrongAnswer):
    outcome = attempt(named, answer.functions)
    assert outcome.status is answer.status, told(outcome)
    assert answer.says in told(outcome)
    assert outcome.points == 0
    if (
        named,
        answer.name,
    ) not in WITHOUT_CASE and "SIG" not in answer.says:  # of a process that died nothing is left
        assert outcome.failing_case, told(outcome)
        if answer.status is Status.ERROR:
            assert f"This happened for {outcome.failing_case.name}." in outcome.message
    chinese = speech("zh")
    if (
        exercise(named)[1].title in chinese.texts
    ):  # a new exercise is what `author translate --check` asks about
        stays_english = [text for text in spoken(outcome) if not CHINESE.search(chinese(text))]
        assert not stays_english  # the catalogue does not know it
    for finding in outcome.findings:
        if finding.evidence and (named, finding.title) not in NONE_EXPECTED:
            require_loads(finding.evidence.expected)


@pytest.mark.parametrize("named", EXPECTED_CAN_REPLACE)
def test_expected_model_is_a_right_answer(named, tmp_path):
    record, work = produced(named, tmp_path)
    files = sorted(tmp_path.glob("*.onnx"))
    assert files
    for file in files:
        own = onnx.load(file)
        broken = onnx.helper.make_model(BROKEN, opset_imports=own.opset_import, ir_version=8)
        file.write_bytes(broken.SerializeToString())
        wrong = next(finding for finding in judge(record, work, 3) if finding.holds is False)
        file.write_bytes(wrong.evidence.expected)
        assert wrong.evidence.model == broken.SerializeToString()
    for finding in judge(record, work, 3):
        assert finding.holds, f"{finding.title}: {finding.message} {finding.difference}"


@pytest.mark.parametrize("named", CONTRACTS)
def test_untouched_answer_is_not_attempted(named):
    _, record = exercise(named)

    def untouched(*arguments, **options):
        raise NotImplementedError

    class Untouched:
        def __init__(self, *arguments, **options):
            raise NotImplementedError

        def __new__(cls, *arguments, **options):
            raise NotImplementedError

        @staticmethod
        def apply(*arguments):
            raise NotImplementedError

    stubs = {name: Untouched if name[0].isupper() else untouched for name in record.answers}
    assert check(record, stubs).status is Status.NOT_ATTEMPTED


@pytest.mark.parametrize("named", CONTRACTS)
@pytest.mark.parametrize("value", [None, 3, "text", ...], ids=repr)
def test_answer_of_any_kind_is_rated(named, value):
    _, record = exercise(named)
    outcome = check(record, dict.fromkeys(record.answers, lambda *_, **__: value))
    if (named, value) == ("find-wrong-shift", None) and SHIFTS_ARE_RIGHT:
        assert outcome.passed
        return
    assert outcome.status in (Status.INCORRECT, Status.ERROR)
    assert told(outcome).strip()


@pytest.mark.parametrize("name", LABS)
def test_lab_says_what_it_is(name):
    one = lab(name)
    assert one.name == name
    assert one.title
    assert [each.order for each in one.exercises] == list(range(1, len(one.exercises) + 1))
    for each in one.exercises:
        assert len(each.hints) == 3
        assert all(each.hints)
        assert each.holds_for
        assert each.parts
        assert each.points > 0
        assert each.answers[0].lower().replace("_", "") == each.id.replace("-", "")
