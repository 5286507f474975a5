"""Grading and running a class of ONNX Lab: what an instructor installs beside onnxlab."""
