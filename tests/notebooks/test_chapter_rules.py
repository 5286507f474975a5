"""Rules of a chapter that a program can see: cells to copy, length, graphs, headings that do not answer.

RULES_ONLY=04 tests one chapter: use it while you write.
"""

MOST_CELLS = 65  # about 60
MOST_PREDICTIONS = 5
FEWEST_GRAPHS = 3
MINUTES_OFF = 5

_WRITTEN_BEFORE = (
    "17",
    "19",
)
