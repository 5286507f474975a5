"""Grading many submissions: isolated, resumable, never lost."""
