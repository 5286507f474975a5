"""Jupyter kernels that are forked from a warm process, with torch loaded already."""
