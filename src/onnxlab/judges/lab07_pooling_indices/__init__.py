"""Lab 7: the indices of max pooling, which PyTorch and ONNX count differently."""
