"""Export of a function or module with ``torch.export``, with all problems found in one pass."""

from .export import ExportRefusal, ExportResult, export_target
from .expressions import rewrite_expression
from .operators import CheckedOperator, check_operators

__all__ = [
    "CheckedOperator",
    "ExportRefusal",
    "ExportResult",
    "check_operators",
    "export_target",
    "rewrite_expression",
]
