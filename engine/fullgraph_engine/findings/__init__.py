"""Findings made from what a run recorded: their code, source range, message and explanation."""

from .runs import RunOutcome, run_target

__all__ = ["RunOutcome", "run_target"]
