"""Export a target as ``torch.export`` does, and find out all that it refuses in one pass."""

from .export import Exported, Refusal, exported
from .expressions import in_names
from .operators import CheckedOperator, checked_operators

__all__ = ["CheckedOperator", "Exported", "Refusal", "checked_operators", "exported", "in_names"]
