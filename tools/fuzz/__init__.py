"""Stress tests: damaged models and notebooks, graders that are killed, power cuts."""
