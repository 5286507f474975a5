"""What authors of the course use: run, clean, check and translate notebooks, make labs, compile the pins."""
