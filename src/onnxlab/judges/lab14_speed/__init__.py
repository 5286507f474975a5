"""Lab 14: the threads of a container, and fusions that are missed."""
