"""Ready-made networks with trained weights and data that several chapters share."""
