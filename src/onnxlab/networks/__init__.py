"""The networks that several chapters share: plain PyTorch, with trained weights that come with the course."""
