"""The half of fullgraph that people and editors talk to. It never imports torch."""

__version__ = "0.1.0"
