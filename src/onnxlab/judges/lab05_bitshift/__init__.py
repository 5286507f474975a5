"""Lab 5: bit shifts, which both exporters translate and neither translates quite right."""
