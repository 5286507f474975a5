"""The course's models in eight programs that run ONNX files: `python -m measurements.back_ends` measures them."""
