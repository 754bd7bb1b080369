"""Record, replay and explain the events of a ShapeEnv.

Import ``comparison`` and ``validation`` by name: no trace needs them, and this torch may lack what
they use.
"""

from .explanation import Explanation, Step, Violation, explain, final_value, violations
from .replay import Budget, Condition, GuardState, OutOfTime, ReplayError, guards_at, replay, within
from .symbol_history import SymbolHistory, follow
from .tape import EventPlace, Operand, Operator, Refusal, Tape, record
from .timeline import Effect, Event, Timeline, stream, timeline
from .unbacked import DataDependent, RuntimeCheck, Unbacked, data_dependent, unbacked
from .upstream import missing

__all__ = [
    "Budget",
    "Condition",
    "DataDependent",
    "Effect",
    "Event",
    "EventPlace",
    "Explanation",
    "GuardState",
    "Operand",
    "Operator",
    "OutOfTime",
    "Refusal",
    "ReplayError",
    "RuntimeCheck",
    "Step",
    "SymbolHistory",
    "Tape",
    "Timeline",
    "Unbacked",
    "Violation",
    "data_dependent",
    "explain",
    "final_value",
    "follow",
    "guards_at",
    "missing",
    "record",
    "replay",
    "stream",
    "timeline",
    "unbacked",
    "violations",
    "within",
]
