"""Lab 14: an honest comparison, the threads of a container, and fusions that are missed."""
