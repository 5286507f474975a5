"""Models as people write them, not made for a chapter: whatever gives advice is tried on them."""
