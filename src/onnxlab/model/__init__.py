"""What a model is, as plain data: its nodes, values and weights, and how two models differ."""
