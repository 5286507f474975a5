"""What is true of a model or an export, as plain data: no IPython, no printing."""
