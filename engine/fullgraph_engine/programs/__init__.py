"""Run a program as its user would, and record what it compiles.

A program is a file with a ``__main__`` block, or with top-level code that calls what it compiles.
It runs once, in place, with its own objects and modes; :mod:`.regions` notes every callable that it
gives to torch to compile, :mod:`.watching` which of Dynamo's work belongs to which call, and
:mod:`.results` turns that into findings and reports for each file of the workspace.
"""

from .detection import is_program
from .execution import Program

__all__ = ["Program", "is_program"]
