"""What a person sees in a notebook: Netron graphs, tables, predictions, expected failures."""
