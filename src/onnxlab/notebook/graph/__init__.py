"""Netron's graphs inside the notebook: a saved picture and a live, sandboxed frame."""
