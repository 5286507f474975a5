"""The exercises of the labs and what judges them: plain data, no notebook needed."""
