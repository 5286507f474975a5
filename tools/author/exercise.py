"""`python -m tools.author exercise LAB NAME`: writes the smallest exercise that passes its contract."""

import re
from pathlib import Path

import nbformat

from onnxlab.course.notebooks import read, write
from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import LABS, lab

_STATEMENT = """
[[exercise]]
id = "{id}"
title = "Double every number"
minutes = 5
answers = ["{function}"]
parts = ["right for every drawn array"]
hints = ["What does one number become?", "Arithmetic works on whole arrays.", "`return 2 * x`"]
"""

_ASKS = '''"""Exercise: double every number.

What the statement asks, and where it is drawn:

* every number is doubled: arrays of one to nine numbers.
"""

import numpy as np

from onnxlab.kit.exercise import Answers
from onnxlab.kit.outcome import trying
from onnxlab.kit.work import Work
from onnxlab.model.distance import Array


def arrays(random: np.random.Generator) -> list[Array]:
    """Draw the arrays that the answer is asked about."""
    return [random.random(size, np.float32) for size in (1, int(random.integers(2, 10)))]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for each array."""
    for number, x in enumerate(arrays(random)):
        with trying(f"an array of shape {{list(x.shape)}}", x=x):
            work.write_array(f"doubled_{{number}}", answers["{function}"](x.copy()))
'''

_JUDGES = '''"""What is right in {id}, part by part."""

import numpy as np

from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.{lab}.{function} import arrays
from onnxlab.model.distance import Array


def {function}(x: Array) -> Array:
    """Return an array with every number doubled."""
    return 2 * x


def judge_doubled(work: Work, random: np.random.Generator) -> None:
    """Compare each array with the solution's."""
    for number, x in enumerate(arrays(work.questions())):
        got, right = work.array(f"doubled_{{number}}"), {function}(x)
        with trying(f"an array of shape {{list(x.shape)}}", x=x):
            if got.shape != right.shape or got.dtype != right.dtype:
                raise Wrong(
                    "The result is {{dtype}} of shape {{shape}}.",
                    "Return an array of the type and shape of x.",
                    dtype=got.dtype,
                    shape=list(got.shape),
                )
            if not np.array_equal(got, right):
                difference = Difference(f"x = {{x.tolist()}}", str(right.tolist()), str(got.tolist()))
                raise Wrong("The numbers differ.", "Compute the first one by hand.", difference=difference)


JUDGES = Judges((judge_doubled,))
'''

_CONTRACT = """
CONTRACTS["{id}"] = Contract(
    right=(solution("{id}"), (lambda x: x + x,)),
    wrong=(
        WrongAnswer("unchanged", solution("{id}", {{"2 * x": "x"}}), "The numbers differ"),
        WrongAnswer("float64", solution("{id}", {{"2 * x": "x.astype('float64')"}}), "float64 of shape"),
        WrongAnswer("nothing is returned", (lambda x: None,), "None was returned"),
        WrongAnswer("one axis more", (lambda x: 2 * x[:, None],), "float32 of shape [1, 1]"),
    ),
)
"""

_TEXT = """## Double every number

**1 point**

Write `{function}(x)`. It takes a float32 array and returns an array with every number doubled."""

_SOLUTION = '''def {function}(x):
    """Return an array with every number doubled."""
    ### BEGIN SOLUTION
    ### END SOLUTION'''


class ExerciseRefused(OnnxLabError):
    """The exercise cannot be written under this name."""


def write_exercise(root: Path, lab_name: str, name: str) -> list[Path]:
    """Write an exercise and return its files: statement, two modules, contract, a section in the solution.

    Raises:
        ExerciseRefused: There is no such lab, the name is not in lower case with hyphens, or it is taken.
    """
    full = next((known for known in LABS if known.startswith(lab_name)), "")
    if not full:
        raise ExerciseRefused(
            f"There is no lab {lab_name!r}.", f"The labs are {', '.join(LABS)}.", "Name one."
        )
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        why = "An exercise's name is words in lower case with hyphens between them."
        raise ExerciseRefused(f"{name!r} is no name for an exercise.", why, "Take one such as drop-unused.")
    if name in {record.id for known in LABS for record in lab(known).exercises}:
        raise ExerciseRefused(f"The exercise {name} exists.", "", f"Change it, then: author try {name}")
    words = {"id": name, "function": name.replace("-", "_"), "lab": full}
    package = root / "src" / "onnxlab"
    asks = package / "labs" / full / f"{words['function']}.py"
    judges = package / "judges" / full / f"{words['function']}.py"
    asks.write_text(_ASKS.format(**words), "utf-8")
    judges.write_text(_JUDGES.format(**words), "utf-8")
    extended = {
        package / "labs" / f"{full}.toml": _STATEMENT,
        root / "tests" / "labs" / "answers" / f"{full.partition('_')[0]}.py": _CONTRACT,
    }
    for path, text in extended.items():
        with path.open("a", encoding="utf-8") as file:
            file.write(text.format(**words))
    path = root / "solutions" / f"{full}.ipynb"
    notebook = nbformat.from_dict(read(path))
    new = nbformat.v4
    notebook.cells[-1:-1] = [
        new.new_markdown_cell(_TEXT.format(**words)),
        new.new_code_cell(_SOLUTION.format(**words)),
        new.new_code_cell(f'check("{name}", {words["function"]})'),
    ]
    write(notebook, path)
    return [asks, judges, *extended, path]
