"""ONNX models as plain data: loading them, their nodes, values and weights, and how two of them differ."""
