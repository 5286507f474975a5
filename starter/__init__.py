"""What course.py does: make the environment, install, start JupyterLab, run the tests.

Standard library only: it runs before anything is installed.
"""
