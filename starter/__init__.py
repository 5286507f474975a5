"""The commands of course.py: making the environment, installing, starting JupyterLab, running the tests.

Standard library only, because it runs before anything is installed.
"""
