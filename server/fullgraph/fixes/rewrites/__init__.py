"""The rewrites of the catalogue: each module is about one kind of code."""
