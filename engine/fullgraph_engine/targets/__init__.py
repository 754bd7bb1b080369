"""Targets of a file (functions and module classes to trace) and their probes (example inputs to
trace them with).

``discover`` reads the text without executing it. ``plan_probes`` inspects the executed module and
returns the probes of a target; ``Probe.build`` makes their inputs in the process that traces the
target.
"""

from . import rng
from .comments import Comment
from .discovery import Discovery, Target, discover
from .enclosing import NotCalled
from .missing import missing_probe
from .notation import NotationError, show_notation
from .notation_parser import parse_probe
from .planning import plan_probes
from .probes import Call, NoProbe, Probe, is_confirmed, unwrap_compiled
from .tensors import DynamicDimension, ProbeError, describe_inputs
from .tracee import Tracee

__all__ = [
    "Call",
    "Comment",
    "Discovery",
    "DynamicDimension",
    "NoProbe",
    "NotCalled",
    "NotationError",
    "Probe",
    "ProbeError",
    "Target",
    "Tracee",
    "describe_inputs",
    "discover",
    "is_confirmed",
    "missing_probe",
    "parse_probe",
    "plan_probes",
    "rng",
    "show_notation",
    "unwrap_compiled",
]
