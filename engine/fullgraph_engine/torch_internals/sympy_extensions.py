"""The printer of sympy expressions as Python that torch adds."""

from torch.utils._sympy.printers import PythonPrinter

__all__ = ["PythonPrinter"]
