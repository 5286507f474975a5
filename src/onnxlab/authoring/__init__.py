"""How the course itself is made: running, cleaning and checking notebooks."""
