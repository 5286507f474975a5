"""Hides packages from each Python that starts with this folder on its path, as if they were not installed.

ONNXLAB_HIDDEN_MODULES has the top-level modules, ONNXLAB_HIDDEN_DISTRIBUTIONS the names in the metadata; see
`tools.author.learner_packages`.
"""

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import DistributionFinder, MetadataPathFinder, PathDistribution
from typing import Any

_MODULES = frozenset(os.environ["ONNXLAB_HIDDEN_MODULES"].split(","))
_DISTRIBUTIONS = frozenset(os.environ["ONNXLAB_HIDDEN_DISTRIBUTIONS"].split(","))


class _VisibleFinder(PathFinder):
    @classmethod
    def find_spec(cls, fullname: str, *arguments: Any) -> Any:  # noqa: ANN401 - as PathFinder has them
        hidden = fullname.partition(".")[0] in _MODULES
        return None if hidden else PathFinder.find_spec(fullname, *arguments)

    @staticmethod
    def find_distributions(
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - as PathFinder has it
    ) -> Iterator[PathDistribution]:
        for distribution in MetadataPathFinder.find_distributions(context):
            if re.sub(r"[-_.]+", "-", distribution.name).lower() not in _DISTRIBUTIONS:
                yield distribution


sys.meta_path[sys.meta_path.index(PathFinder)] = _VisibleFinder
