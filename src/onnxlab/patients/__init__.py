"""The clinic: real failures, each cut to a small model, with its symptom, its stage, and its repair."""
