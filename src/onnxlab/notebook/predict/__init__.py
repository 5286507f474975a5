"""Questions that a learner answers before running a cell."""
