"""Export a target as ``torch.export`` does, and find out all that it refuses in one pass."""

from .export import Exported, Refusal, exported
from .expressions import in_names

__all__ = ["Exported", "Refusal", "exported", "in_names"]
