"""The course's models in eight programs that run ONNX files: `python -m tools.back_ends` measures them."""
