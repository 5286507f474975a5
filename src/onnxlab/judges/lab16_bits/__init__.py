"""Lab 16: three tools that make a smaller file, judged by the file."""
