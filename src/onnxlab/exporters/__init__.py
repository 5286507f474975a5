"""Both exporters of PyTorch: what they make, where they fail, what they say, their symbolic rules."""
