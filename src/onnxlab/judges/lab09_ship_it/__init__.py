"""Lab 9: a file that another machine loads, and that is still right there."""
