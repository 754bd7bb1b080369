"""Torch's extensions of sympy: functions, infinities, value ranges and a Python printer."""

from torch.utils._sympy import functions, numbers
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRanges

__all__ = ["PythonPrinter", "ValueRanges", "functions", "numbers"]
