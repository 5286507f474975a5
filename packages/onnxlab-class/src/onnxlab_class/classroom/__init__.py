"""A class: nbgrader course folders, a JupyterHub for the room, and what the room looks like."""
