"""What is wrong or risky in a model file, found without the code that made it."""
