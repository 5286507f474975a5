"""Names that no learner can have: those of a class's own folders and files, and of the labs."""

import re
import unicodedata

from onnxlab.kit.exercise import LABS

_PLACES = {
    *("source", "release", "submitted", "autograded", "feedback", "exchange"),  # nbgrader's
    *("hub", "learners", "settings", "class", "gradebook", "nbgrader_config"),  # the class's
    *("labs", "notebooks", "solutions", "docs"),  # the course's
    *("results", "taken", "onnxlab"),  # those of the instructor's guide
}
_LAB = re.compile(r"lab[\W_]*\d+(?![^\W_])")


def is_reserved(name: str) -> bool:
    """Tell whether a name is a place's or a lab's, in whatever case and Unicode form it is written.

    A lab's number counts, and so does a future lab's.

    Example:
        >>> [is_reserved(name) for name in ("Submitted", "class.json", "lab4", "ada", "labradoodle")]
        [True, True, True, False, False]
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()
    stem = re.sub(r"\.(json|db|py|ipynb)$", "", plain)
    return stem in _PLACES or stem in LABS or _LAB.match(stem) is not None
