"""Scripts that make the shipped data and measure the project; not part of the package."""
