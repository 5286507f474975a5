"""Lab 2: which axes are dynamic, and whether the model keeps that promise."""
