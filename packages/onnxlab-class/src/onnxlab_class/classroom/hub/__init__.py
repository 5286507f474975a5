"""A class's hub on one machine: JupyterHub, who may sign in, and what keeps learners apart."""
