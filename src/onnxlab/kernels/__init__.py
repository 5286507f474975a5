"""Jupyter kernels that are forked from a process with torch loaded: ready in a fraction of a second.

`provisioner` is what Jupyter sees, `asking` finds or starts the warm process, `warm` is that process,
`nursery` its loop, `becoming` what a fork does to look like a kernel that was just started. `shared` is
one warm process for a whole class. Linux only; everything else gets ordinary kernels.
"""
