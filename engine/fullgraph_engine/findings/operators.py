"""Findings for custom operators without the tag ``pt2_compliant_tag``, which compiled code may not
support."""

from __future__ import annotations

from ..protocol import Finding, Range
from ..protocol.evidence import OperatorEvidence
from ..tracing.recording import CustomOp
from .places import SourceText, finding_identity, related_to

_HOW = {
    "overload": "The code calls this overload directly.",
    "single overload": "The operator has only this overload.",
    "resolved packet": "The arguments of this call chose this overload.",
}

_TORCH = ("aten", "prims")
_OF_TORCH = ("PyTorch defines this operator, so only PyTorch can tag it. Report this to PyTorch.",)
_OF_OTHERS = (
    "Define the operator with `torch.library.custom_op`, which tags it, or pass "
    "`tags=(torch.Tag.pt2_compliant_tag,)` to `torch.library.define`.",
    "Check the registration with `torch.library.opcheck` before you tag it.",
)


def operator_finding(op: CustomOp, source: SourceText, fallback: Range) -> Finding:
    """Return the finding for a call of a custom operator without ``pt2_compliant_tag``.

    ``fallback`` is the range if no frame of the call is in the file.
    """
    place = source.locate(op.stack, fallback)
    code = "op/not-pt2-compliant"
    return Finding(
        code=code,
        message=f"Operator `{op.name}` is not PT2-compliant",
        range=place.range,
        explanation=(
            "The operator is not tagged `pt2_compliant_tag`, so it may not work with fake "
            f"tensors, functionalization and autograd under torch.compile. {_HOW[op.resolution]}"
        ),
        hints=_OF_TORCH if op.name.partition(".")[0] in _TORCH else _OF_OTHERS,
        href="https://docs.pytorch.org/docs/stable/library.html",
        stack=place.stack,
        related=related_to(place),
        identity=f"{finding_identity(code, place.range)} {op.name}",
        evidence=OperatorEvidence(op.name, op.resolution),
    )
