"""What makes shipped data and measures the project; not part of the package."""
