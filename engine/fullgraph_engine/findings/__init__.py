"""Findings made from recordings: their code, place, message and explanation."""

from .runs import RunOutcome, run_target

__all__ = ["RunOutcome", "run_target"]
