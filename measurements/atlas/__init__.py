"""The operator atlas, computed from the installed packages; the course ships the recording."""
