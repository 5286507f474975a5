"""Lab 1: a loop and a branch that are still there after the export."""
