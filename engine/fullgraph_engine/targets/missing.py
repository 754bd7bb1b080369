"""The finding for an untraced target (a function or module class) whose inputs are unknown."""

from __future__ import annotations

import contextlib

from ..protocol import Finding, Fix, Position, Range, TextEdit
from .discovery import Target
from .first_probe import write_first_probe
from .source import byte_lines

_NOTHING = (
    "fullgraph found no probe comment, no shape annotations for all inputs, and no other source "
    "of inputs (get_inputs, example_input_array, a call at module level)."
)


def missing_probe(target: Target, text: str, obstacle: str = "") -> Finding:
    """Return the finding that a target is not traced because its inputs are unknown.

    ``text`` is the file's source; ``obstacle`` is a sentence on the reason, or empty.
    """
    line = target.body.start.line
    start = Position(line, 0)
    encoded = byte_lines(text)
    raw = encoded[line] if line < len(encoded) else b""
    indent = raw[: len(raw) - len(raw.lstrip())].decode()
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"

    def comment(words: str) -> tuple[TextEdit, ...]:
        return (TextEdit(Range(start, start), f"{indent}# fullgraph: {words}{newline}"),)

    probe = ""
    with contextlib.suppress(ImportError):  # without torch, example inputs would not help
        probe = write_first_probe(target, text)
    first = (Fix(f"Write a first probe comment: {probe}", comment(probe)),) if probe else ()
    return Finding(
        code="probe/missing",
        message=f"{target.name} is not traced: fullgraph doesn't know its inputs",
        range=target.range,
        target=target.name,
        explanation=obstacle or _NOTHING,
        hints=(
            f"Write the inputs of {target.name} in a comment above it, such as `# fullgraph: "
            "init(dim=16) forward(f32[4, 16])`, or trace the code that calls it.",
        ),
        fixes=(*first, Fix(f"Do not trace {target.name}", comment("off"))),
        identity=f"probe/missing:{target.name}",
    )
