"""Describe repros (small scripts that reproduce a finding): the progress of the reduction, its
outcome, and the text of an issue."""

from __future__ import annotations

import re
from typing import Any

from fullgraph.domain import codes
from fullgraph.domain.phrases import SEPARATOR, amount, listing
from fullgraph.domain.repro import ReductionState, ReproOutcome
from fullgraph_engine.protocol import Wanted
from fullgraph_engine.protocol.repro import DATA

_EFFECTS = {
    "graph-break": "`torch.compile` breaks the graph",
    "frame-skipped": "`torch.compile` skips a function",
    "op": "`torch.compile` traces an operator that it may not support",
    "guard": "`torch.compile` specializes on a value",
    "recompile": "`torch.compile` recompiles",
    "trace": "`torch.compile` fails",
}
"""Words for the effect of a finding on torch.compile, by the first part of its code, such as
``graph-break``."""


def reduction_words(state: ReductionState) -> str:
    """Describe the progress of a reduction: ``143 → 37 lines · 212 tried · 4.1 s``.

    The numbers are the lines of code at first and now, and the number of programs that were run.
    """
    last = state.last
    if last is None:
        return "Starting"
    if last.stage == "looking" or not last.lines:
        words = ["looking for a script that shows the finding"]
    elif state.first_lines > last.lines:
        words = [f"{state.first_lines} → {amount(last.lines, 'line')}"]
    else:
        words = [amount(last.lines, "line")]
    if last.stage == "verifying":
        words.append("running it in a fresh Python")
    return SEPARATOR.join([*words, f"{last.tried} tried", f"{last.seconds:.1f} s"])


def outcome_words(outcome: ReproOutcome) -> str:
    """Describe the outcome of a reduction: ``12 lines of 143, verified in a fresh Python · 212
    tried · 4.1 s``.
    """
    found = outcome.found
    if found is None:
        return ""
    lines = amount(found.lines, "line")
    if outcome.first_lines > found.lines:
        lines += f" of {outcome.first_lines}"
    verified = "verified in a fresh Python" if outcome.verified else "not verified"
    words = [f"{lines}, {verified}", f"{outcome.tried} tried", f"{outcome.seconds:.1f} s"]
    return SEPARATOR.join(words)


def repro_sentence(wanted: Wanted) -> str:
    """Describe in one sentence the finding that the script has to reproduce."""
    if wanted.backend:
        failing = "gives other results than eager mode" if wanted.accuracy else "fails"
        return f'`torch.compile(backend="{wanted.backend}")` {failing}.'
    message = wanted.message.strip().split("\n", 1)[0].rstrip(".")
    # Codes without an id are only used by this project, so PyTorch's developers would not know
    # them.
    identity = codes.graph_break_id(wanted.code)
    effect = _EFFECTS.get(
        wanted.code.partition("/")[0], "`torch.compile` does something unexpected"
    )
    effect += f" ({identity})" if identity else ""
    return f"{effect}: {message}." if message else f"{effect}."


def issue_text(outcome: ReproOutcome) -> str:
    """Return the Markdown of an issue: a description, the script that reproduces the finding, its
    output and the environment."""
    found = outcome.found
    parts = [repro_sentence(outcome.wanted)]
    if found is not None:
        if not outcome.verified:
            parts.append(f"The script has not been verified: {outcome.reason}")
        parts.append(_fence_text(found.script, "python"))
        if found.data:
            listed = listing([f"`{DATA}/{name}`" for name in found.data])
            parts.append(f"The script needs the attached data: {listed}.")
        if found.output.strip():
            parts += ["It prints:", _fence_text(found.output)]
        if found.environment.strip():
            environment = _fence_text(found.environment)
            parts.append(f"<details><summary>Environment</summary>\n\n{environment}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def outcome_json(outcome: ReproOutcome, path: str) -> dict[str, Any]:
    """Convert the outcome of a reduction to JSON data; ``path`` is the file where the script was
    saved, or empty."""
    found = outcome.found
    return {
        "verified": outcome.verified,
        "reason": outcome.reason or None,
        "cancelled": outcome.cancelled,
        "path": path or None,
        "lines": found.lines if found is not None else None,
        "firstLines": outcome.first_lines or None,
        "tried": outcome.tried,
        "seconds": round(outcome.seconds, 3),
        "notes": list(found.notes) if found is not None else [],
        "data": list(found.data) if found is not None else [],
        "script": found.script if found is not None else None,
        "output": found.output if found is not None else None,
        "environment": found.environment if found is not None else None,
    }


def _fence_text(text: str, language: str = "") -> str:
    """Put a text into a code fence longer than any fence in the text."""
    longest = max((len(ticks) for ticks in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.strip()}\n{fence}"
