"""Private names of graph capture: creation of nodes, and the call of the backend."""

from __future__ import annotations

from typing import Any

from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from .binding import internal

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket"]

_OG = "torch._dynamo.output_graph"

COMPLIANCE = internal(
    "compliance", "operators that are not PT2-compliant", _OG, "check_pt2_compliant_op"
)
CREATE_NODE = internal("graphs", "source range of each operator", _OG, "SubgraphTracer.create_node")
CALL_COMPILER = internal("graphs", "graphs", _OG, "OutputGraph.call_user_compiler")

INTERNALS = (COMPLIANCE, CREATE_NODE, CALL_COMPILER)


def find_shape_env(output: Any) -> Any:
    """Return the ``ShapeEnv`` that an ``OutputGraph`` of Dynamo uses, or None."""
    return getattr(output, "shape_env", None)
