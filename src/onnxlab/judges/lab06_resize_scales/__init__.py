"""Lab 6: an enlargement whose factor is chosen when the model runs."""
