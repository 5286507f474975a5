"""The course in another language: catalogues of its texts, and the notebooks that are made from them."""
