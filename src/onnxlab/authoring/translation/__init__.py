"""The course in another language: catalogues of what there is to translate, and the notebooks made from them."""
