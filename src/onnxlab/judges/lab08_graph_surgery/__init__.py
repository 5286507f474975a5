"""Lab 8: models changed, cut and compared without an exporter."""
