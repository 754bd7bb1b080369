"""Run a program as its user would, and record what the program compiles.

A program is a file with a ``__main__`` block, or with top-level code that calls a function or
object of the file. It runs once, with its own objects and modes. :mod:`.regions` finds every
callable that the program compiles. :mod:`.watching` assigns Dynamo's work to the calls of these
callables. :mod:`.results` converts the records to findings and reports for each workspace file.
"""

from .detection import is_program
from .execution import Program

__all__ = ["Program", "is_program"]
