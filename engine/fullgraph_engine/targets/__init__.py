"""What in a file can be traced, and what it is called with.

``discover`` reads the text and executes nothing. ``plan`` looks at the executed module and says in
which ways a target can be called; ``Probe.build`` makes the inputs, inside a run.
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
