"""PyTorch's two exporters: exports and failures as data, silenced output, symbolic functions."""
