"""Lab 12: what stands before and behind a detector, inside the file: from any picture to boxes on it."""
