"""Lab 10: eight bits and sixteen, and what is lost on the way without a word."""
