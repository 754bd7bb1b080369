"""Documents for people about a run: graphs, bytecode, ShapeEnv events."""

from .sink import DocumentRequest

__all__ = ["DocumentRequest"]
