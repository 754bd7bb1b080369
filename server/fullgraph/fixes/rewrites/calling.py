"""Rewrites of calls of compiled functions, so that all calls have arguments and modes of one
kind."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_calls, guard_of
from fullgraph.fixes.rewrites.syntax import Syntax, callee
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_ARGUMENT = re.compile(r"^L\['(?P<name>\w+)'\]$")
_WITHOUT_GRADIENTS = ("torch.no_grad", "torch.inference_mode")


def contiguous_arguments(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that passes a contiguous tensor, if the strides of an argument vary."""
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return
    found = _ARGUMENT.match(guard.source)
    if found is None or not evidence.detail.startswith("stride"):
        return
    name = found["name"]
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in compiled_calls(syntax, evidence.function):
        value = call.arguments.get(name)
        if value is not None:
            code = f"{syntax.operand(value)}.contiguous()"
            changes.append((value, syntax.expression(code)))
    if changes:
        yield Candidate(
            "contiguous",
            f"Pass a contiguous `{name}`",
            site.replaced(changes),
            gives_up=f"A call with another layout of `{name}` copies it.",
        )


def uncompiled_evaluation(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that runs evaluation without gradients in eager mode, by ``set_stance``.

    The finding is a recompile because gradients were turned off or on, or because the mode of a
    module changed.
    """
    evidence, syntax = site.finding.evidence, Syntax(site)
    words = " ".join(one.words for one in getattr(evidence, "guards", ()))
    if not isinstance(evidence, RecompileEvidence) or not (
        site.finding.code == "recompile/mode" or ".training" in words
    ):
        return
    stance = f'{syntax.spelled("torch.compiler.set_stance")}("force_eager")'
    changes: list[tuple[cst.CSTNode, Change]] = []
    for block in m.findall(site.module, m.With()):
        assert isinstance(block, cst.With)
        if any(syntax.name(callee(one.item)) in _WITHOUT_GRADIENTS for one in block.items):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            first = [
                one if isinstance(one.comma, cst.Comma) else one.with_changes(comma=comma)
                for one in block.items
            ]
            items = [*first, cst.WithItem(syntax.expression(stance))]
            for old, new in zip(block.items, items, strict=False):
                changes.append((old, new))
            last = block.items[-1]
            changes = [one for one in changes if one[0] is not last]
            changes.append((last, cst.FlattenSentinel(items[-2:])))
    if changes:
        yield Candidate(
            "uncompiled-evaluation",
            "Evaluate without compiled code",
            site.replaced(changes),
            gives_up="Evaluation is not compiled, and is slower.",
        )
