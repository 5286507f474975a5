"""ONNX Lab: how PyTorch models become ONNX models and run in ONNX Runtime."""

import os

# ONNX Runtime reads this at import; the course reports nothing to anybody.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
