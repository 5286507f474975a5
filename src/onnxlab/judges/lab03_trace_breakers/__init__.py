"""Lab 3: a model with trace breakers, repaired; and a trace broken on purpose."""
