"""Lab 10: eight bits, calibrated with what the network really gets."""
