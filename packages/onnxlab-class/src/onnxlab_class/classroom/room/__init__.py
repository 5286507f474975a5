"""The instructor's live page: who has passed what, and where people are stuck."""
