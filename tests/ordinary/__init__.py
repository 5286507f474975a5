"""Models as people write them, from the field and not from the chapters: whatever gives advice is tried on them."""
