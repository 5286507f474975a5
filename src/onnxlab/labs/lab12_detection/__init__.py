"""Lab 12: what comes before and after a detector, inside the file: from any picture to boxes on it."""
