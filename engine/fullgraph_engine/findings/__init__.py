"""Recording to findings: what is worth showing, where, in which words."""

from .runs import RunOutcome, run_target

__all__ = ["RunOutcome", "run_target"]
