"""What a ShapeEnv learned, event by event: record, replay, compare, explain."""

from .archive import ArchiveError, read, write
from .comparison import (
    Difference,
    Divergence,
    Missing,
    compare_with_live,
    differences,
    find_missing,
    first_difference,
)
from .explanation import Explanation, Step, Violation, explain, explain_all, final_value, violations
from .replay import Condition, GuardState, OutOfTime, ReplayError, guards_at, replay, within
from .symbol_history import Course, follow
from .tape import Operand, Operator, Place, Refusal, Tape, record
from .timeline import Effect, Event, Timeline, stream, timeline
from .unbacked import DataDependent, RuntimeCheck, Unbacked, data_dependent, unbacked
from .upstream import missing
from .validation import Validation, validate

__all__ = [
    "ArchiveError",
    "Condition",
    "Course",
    "DataDependent",
    "Difference",
    "Divergence",
    "Effect",
    "Event",
    "Explanation",
    "GuardState",
    "Missing",
    "Operand",
    "Operator",
    "OutOfTime",
    "Place",
    "Refusal",
    "ReplayError",
    "RuntimeCheck",
    "Step",
    "Tape",
    "Timeline",
    "Unbacked",
    "Validation",
    "Violation",
    "compare_with_live",
    "data_dependent",
    "differences",
    "explain",
    "explain_all",
    "final_value",
    "find_missing",
    "first_difference",
    "follow",
    "guards_at",
    "missing",
    "read",
    "record",
    "replay",
    "stream",
    "timeline",
    "unbacked",
    "validate",
    "violations",
    "within",
    "write",
]
