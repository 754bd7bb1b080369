"""Torch's printer that formats sympy expressions as Python code."""

from torch.utils._sympy.printers import PythonPrinter

__all__ = ["PythonPrinter"]
