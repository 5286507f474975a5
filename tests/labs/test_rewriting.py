"""What an answer that makes models from models is asked, and which of its answers count."""

import numpy as np
import onnx
import pytest

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.work import Work


def question(number: int, *, possible: bool) -> Question:
    value = onnx.helper.make_tensor_value_info(f"x{number}", onnx.TensorProto.FLOAT, [1])
    model = onnx.helper.make_model(onnx.helper.make_graph([], f"question {number}", [value], []))
    return Question(f"the model {number}", model, possible=possible)


@pytest.mark.parametrize("mendable", [False, True])
@pytest.mark.parametrize(("count", "asked_twice"), [(1, 1), (2, 2), (3, 3), (7, 3)])
@pytest.mark.parametrize("possible", [True, False])
def test_some_questions_are_asked_twice_and_the_last_answer_counts(
    tmp_path, count, asked_twice, possible, mendable
):
    seen = set()

    def forgetful(model: onnx.ModelProto) -> onnx.ModelProto:
        """Right at the first time, wrong at the second, as an answer with a cache may be."""
        name, first = model.graph.name, model.graph.name not in seen
        seen.add(name)
        if first and not possible:
            raise ValueError("this cannot be done")
        model.graph.name = "first" if first else "again"
        return model

    asks = Rewriting(
        "answer", "made", lambda random: [question(i, possible=possible) for i in range(count)], mendable
    )
    work = Work(tmp_path)
    asks.produce({"answer": forgetful}, work, np.random.default_rng(0))
    if possible:
        last = [work.model(f"made_{number}").graph.name for number in range(count)]
        assert sorted(last) == ["again"] * asked_twice + ["first"] * (count - asked_twice)
    else:
        raised = work.json("raised").values()
        assert sorted(raised) == ["ValueError"] * (count - asked_twice) + ["nothing"] * asked_twice
