"""What torch adds to sympy: functions, infinities, ranges, and printing as Python."""

from torch.utils._sympy import functions, numbers
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRanges

__all__ = ["PythonPrinter", "ValueRanges", "functions", "numbers"]
