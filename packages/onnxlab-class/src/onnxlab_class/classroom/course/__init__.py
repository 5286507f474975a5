"""A class: its folder, which is an nbgrader course directory; the gradebook; a copy for offline laptops."""
