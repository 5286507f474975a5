"""What a person sees in a notebook: Netron graphs, tables, predictions, expected failures."""

__all__: list[str] = []  # each display has its own module; learners import from onnxlab itself
