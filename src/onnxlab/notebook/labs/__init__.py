"""How the checks of the labs look in a notebook."""
