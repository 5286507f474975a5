"""The map of every operator of ATen through both exporters."""
