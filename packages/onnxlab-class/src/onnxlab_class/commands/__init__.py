"""The commands that onnxlab-class adds to `onnxlab`: arguments and printing, nothing else."""
