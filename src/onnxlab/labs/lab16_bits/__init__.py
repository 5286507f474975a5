"""Lab 16: two tools that make a smaller file, judged by the file."""
