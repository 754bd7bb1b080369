"""Describe causes and costs of graph breaks (places where torch.compile splits a graph) in
words."""

from __future__ import annotations

from collections.abc import Callable

from fullgraph.domain.paths import short_path
from fullgraph.domain.phrases import amount, listing
from fullgraph_engine.protocol import BreakCause, BreakCost, GraphCut

_MOST_CUTS = 6
"""Maximum number of split graphs that the page about a graph break's cost lists."""


def cause_words(
    cause: BreakCause, line: int, format_path: Callable[[str], str] = short_path
) -> str:
    """Describe the cause of a graph break: ``the call of `print```, ``line 12``.

    ``line`` is the zero-based line of the finding; ``format_path`` shortens the paths of other
    files.
    """
    if cause.kind == "call":
        return f"the call of `{cause.function}`"
    if cause.kind == "place":
        return f"line {line + 1}"
    where = f"`{cause.function}` ({format_path(cause.path)}:{cause.line + 1})"
    return f"{where}, a hook or wrapper of a library" if cause.kind == "hook" else where


def cost_clause(cost: BreakCost) -> str:
    """Describe the cost of a graph break in a clause: ``cuts 340 ops into 120 + 220, syncs with the
    device (`Tensor.item()`)``."""
    facts = [_eager_words(cost)] if cost.eager else []
    dividing = [cut for cut in cost.cuts if cut.before and cut.after]
    if len(dividing) == 1 == len(cost.cuts):
        facts.append(_cut_words(dividing[0]))
    elif dividing:
        facts.append(f"cuts {amount(cost.ops, 'op')} into {amount(cost.graphs, 'graph')}")
    elif not cost.eager:
        facts.append("does not split a graph")
    if cost.sync:
        times = f" {cost.syncs:,} times" if cost.syncs not in (1, cost.met) else ""
        facts.append(f"syncs with the device{times} (`{cost.sync}`)")
    if cost.met > 1:
        facts.append(f"{cost.met:,} times per call")
    if not cost.worth_fixing:
        facts.append("cheap (no GPU sync)" if cost.sync_free else "cheap")
    return ", ".join(facts)


def cost_page(cost: BreakCost) -> str:
    """Describe the cost of a graph break in full, as Markdown."""
    often = f", reached {cost.met:,} times" if cost.met > 1 else ""
    lines = [f"**Cost of this graph break** in one call of `{cost.target}`{often}", ""]
    lines += [f"- {_eager_words(cost)}"] if cost.eager else []
    if cost.sync:
        times = f" {cost.syncs:,} times" if cost.syncs > 1 else ""
        lines.append(f"- waits{times} for the device: `{cost.sync}`")
    for cut in cost.cuts[:_MOST_CUTS]:
        times = f", {cut.runs:,} times" if cut.runs > 1 else ""
        lines.append(f"- in `{cut.function}`: {_cut_words(cut)}{times}")
    if len(cost.cuts) > _MOST_CUTS:
        lines.append(f"- {amount(len(cost.cuts) - _MOST_CUTS, 'more cut')}")
    if cost.resumes:
        compiled = amount(cost.resumes, "resume function")
        lines.append(f"- {compiled} with {amount(cost.guards, 'guard')}")
    if not cost.worth_fixing:
        apart = "only one operator is split off" if cost.separated else "no operators are split off"
        lines += ["", f"Cheap: {apart}{', no GPU sync' if cost.sync_free else ''}"]
    return "\n".join(lines)


def _cut_words(cut: GraphCut) -> str:
    if cut.before and cut.after:
        total = amount(cut.before + cut.after, "op")
        return f"cuts {total} into {cut.before:,} + {cut.after:,}"
    if cut.before:
        return f"{amount(cut.before, 'op')} before the break, none after"
    return f"{amount(cut.after, 'op')} after the break, none before"


def _eager_words(cost: BreakCost) -> str:
    names = listing(f"`{name}`" for name in cost.eager)
    traced = f" ({amount(cost.dropped, 'op')} traced before the break)" if cost.dropped else ""
    return f"runs {names} in eager mode{traced}"
