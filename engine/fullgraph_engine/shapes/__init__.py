"""Record, replay and explain the events of a ShapeEnv, which give symbolic sizes their values and
guards.

``archive`` (a tape as a file) and ``comparison`` (of two tapes) must be imported by name. Tracing
does not need them, and the installed torch may lack the private names that they use.
"""

from .explanation import Explanation, Step, Violation, explain_symbol, final_value, find_violations
from .replay import (
    OutOfTime,
    ReplayBudget,
    ReplayError,
    replay_tape,
    time_limit,
)
from .symbol_history import SymbolHistory, follow_tape
from .tape import EventPlace, FailedEvent, Operand, Tape, TracedOperator, record_tapes
from .timeline import Effect, Timeline, TimelineEvent, build_timeline, stream_events
from .unbacked import (
    DataDependentCondition,
    RuntimeCheck,
    UnbackedSymbol,
    find_data_dependent,
    find_unbacked,
)
from .upstream import missing_names

__all__ = [
    "DataDependentCondition",
    "Effect",
    "EventPlace",
    "Explanation",
    "FailedEvent",
    "Operand",
    "OutOfTime",
    "ReplayBudget",
    "ReplayError",
    "RuntimeCheck",
    "Step",
    "SymbolHistory",
    "Tape",
    "Timeline",
    "TimelineEvent",
    "TracedOperator",
    "UnbackedSymbol",
    "Violation",
    "build_timeline",
    "explain_symbol",
    "final_value",
    "find_data_dependent",
    "find_unbacked",
    "find_violations",
    "follow_tape",
    "missing_names",
    "record_tapes",
    "replay_tape",
    "stream_events",
    "time_limit",
]
