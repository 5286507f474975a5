"""What all exercises share: statements, how answers are called and judged, and the progress that is kept."""
