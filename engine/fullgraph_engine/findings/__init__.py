"""Findings (diagnostics such as graph breaks), derived from what Dynamo did while a target was
traced."""

from .runs import RunOutcome, run_target

__all__ = ["RunOutcome", "run_target"]
