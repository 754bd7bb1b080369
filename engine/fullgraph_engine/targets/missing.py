"""The finding for a target whose inputs are unknown."""

from __future__ import annotations

from ..protocol import Finding, Fix, Position, Range, TextEdit
from .discovery import Target
from .source import byte_lines

_NOTHING = (
    "There is no probe comment, no shape annotation on every input, and none of the "
    "conventions (get_inputs, example_input_array, a call at module level) applies."
)


def missing_probe(target: Target, text: str, obstacle: str = "") -> Finding:
    """Return the finding for a target whose inputs are unknown.

    ``obstacle`` is a sentence on the reason.
    """
    line = target.body.start.line
    start = Position(line, 0)
    encoded = byte_lines(text)
    raw = encoded[line] if line < len(encoded) else b""
    indent = raw[: len(raw) - len(raw.lstrip())].decode()
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    off = TextEdit(Range(start, start), f"{indent}# fullgraph: off{newline}")
    return Finding(
        code="probe/missing",
        message=f"{target.name} is not traced: no example inputs.",
        range=target.range,
        target=target.name,
        explanation=obstacle or _NOTHING,
        hints=(
            "Write its inputs above it, as `# fullgraph: init(dim=16) forward(f32[4, 16])`, or "
            "trace what calls it.",
        ),
        fixes=(Fix(f"Do not trace {target.name}", (off,)),),
        identity=f"probe/missing:{target.name}",
    )
