"""What writes the recorded data, the trained weights and the tables of the documents: see README.md."""
