"""Recording to findings: what is worth showing, where, in which words."""

from .runs import Outcome, run_target

__all__ = ["Outcome", "run_target"]
