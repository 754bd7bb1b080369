"""The name of torch that the cursor is on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fullgraph_engine.protocol.operators import Name, Operator, Overload

from .index import OperatorIndex
from .seen import Seen

Certainty = Literal["certain", "traced", "unambiguous", "guess"]
"""How a name was resolved: through imports and aliases; by what the last trace saw its receiver to
be; because only ``torch.Tensor`` has a method of that name; or for want of anything better."""


@dataclass(frozen=True)
class Subject:
    """``start`` and ``end`` are of the dotted name, up to the segment that the cursor is on.

    ``path`` is what the name resolves to (``torch.max``, ``torch.Tensor.max``,
    ``torch.ops.aten.add.Tensor``), ``name`` the entry of the index behind it, through aliases, and
    ``operator`` and ``overload`` those of a path under ``torch.ops``. With the cursor on the name
    of a keyword argument the subject is the callee, and ``parameter`` that name.
    """

    start: int
    end: int
    path: str
    name: Name | None = None
    operator: Operator | None = None
    overload: Overload | None = None
    parameter: str = ""
    certainty: Certainty = "certain"


NOTHING_SEEN = Seen()


def subject_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> Subject | None:
    """The name of torch at an offset of a text, which need not parse."""
    return None
