"""A name for a user who has none: nbgrader and others ask the system for the name of whoever runs them."""

from onnxlab.classroom.naming import name_this_user

name_this_user()
