"""Targets of a file and the probes that call them.

``discover`` reads the text without executing it. ``plan`` inspects the executed module and returns
the probes of a target; ``Probe.build`` makes the inputs during a run.
"""

from . import rng
from .comments import Comment
from .discovery import Discovery, Target, discover
from .enclosing import NotCalled
from .missing import missing_probe
from .notation import NotationError, parse, show
from .planning import plan
from .probes import Call, NoProbe, Probe, confirm, unwrap
from .tensors import Dynamic, ProbeError, describe
from .tracee import Tracee

__all__ = [
    "Call",
    "Comment",
    "Discovery",
    "Dynamic",
    "NoProbe",
    "NotCalled",
    "NotationError",
    "Probe",
    "ProbeError",
    "Target",
    "Tracee",
    "confirm",
    "describe",
    "discover",
    "missing_probe",
    "parse",
    "plan",
    "rng",
    "show",
    "unwrap",
]
