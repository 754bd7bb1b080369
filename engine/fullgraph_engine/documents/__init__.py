"""Documents for people about one trace of a target: captured graphs, bytecode, ShapeEnv events."""

from .sink import DocumentRequest

__all__ = ["DocumentRequest"]
