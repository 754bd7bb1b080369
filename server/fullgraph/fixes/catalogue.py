"""The catalogue of rewrites, and the candidates (rewritten texts) that they make for a finding."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from fullgraph.fixes.candidate import Candidate, apply_edits, edits_between, merge_edits
from fullgraph.fixes.outcomes import Refused
from fullgraph.fixes.rewrites import (
    autograd,
    branches,
    calling,
    checks,
    constructors,
    counters,
    custom_operators,
    disable,
    dynamic,
    dynamic_outputs,
    effects,
    exports,
    hoisting,
    isolation,
    iterations,
    kept,
    left_out,
    loops,
    masks,
    numpy_numbers,
    packed,
    python,
    regions,
    returned_numbers,
    scalars,
    sizes,
    ternaries,
    varying_values,
)
from fullgraph.fixes.site import Site, Text, Unparsable
from fullgraph_engine.protocol import Finding, SeenValue

Rewrite = Callable[[Site], Iterator[Candidate]]
"""Function that yields candidates (rewritten texts) for the code at a finding, the likeliest first.

It yields nothing if its rewrite does not apply.
"""

REWRITES: tuple[Rewrite, ...] = (
    checks.checks,
    python.products,
    numpy_numbers.python_numbers,
    branches.branches,
    loops.loops,
    masks.masks,
    masks.boolean_masks,
    ternaries.ternaries,
    kept.recompute_cached,
    sizes.sizes,
    counters.counters,
    exports.add_checks,
    regions.compile_each_block,
    regions.compile_block_once,
    custom_operators.add_fake_kernels,
    hoisting.compiled_once,
    dynamic.dynamic,
    varying_values.varying_values,
    calling.converted_arguments,
    calling.copied_attributes,
    calling.default_arguments,
    calling.marked_before_first_call,
    dynamic.dynamic_settings,
    calling.uncompiled_evaluation,
    isolation.isolated_calls,
    calling.uncompiled_first_call,
    isolation.isolated_objects,
    isolation.isolated_kinds,
    effects.not_when_compiling,
    effects.clock_without_time,
    effects.reordered_output,
    effects.ignored_logger,
    constructors.moved_to_constructor,
    python.random_numbers,
    python.certain_draws,
    python.lists_for_generators,
    python.ranges,
    python.divergences,
    autograd.legacy_variables,
    autograd.constant_without_gradient,
    autograd.attribute_of_tensor,
    scalars.tensor_arithmetic,
    scalars.tensor_index,
    scalars.comparisons,
    dynamic_outputs.masked_reduction,
    dynamic_outputs.masked_loss,
    dynamic_outputs.masked_assignment,
    returned_numbers.returned_numbers,
    scalars.capture_numbers,
    dynamic_outputs.assumed_conditions,
    dynamic_outputs.capture_sizes,
    autograd.traced_gradients,
    packed.pad_sequences,
    autograd.traced_recurrence,
    dynamic_outputs.padded_places,
    custom_operators.wrap_calls,
    custom_operators.of_function,
    custom_operators.of_block,
    custom_operators.of_rest,
    iterations.compiled_iterations,
    left_out.left_out_of_graph,
    disable.left_untraced,
)
"""Rewrites in the order in which they are tried: rewrites that preserve the meaning of the program
first, rewrites that leave code untraced last."""


def candidates(text: Text, finding: Finding) -> tuple[Candidate, ...]:
    """Return the rewritten texts that may fix a finding, without duplicates, in the order in which
    to try them.
    """
    site = Site(text, finding)
    found: dict[str, Candidate] = {}
    for rewrite in REWRITES:
        for candidate in rewrite(site):
            if candidate.text != text.text:
                found.setdefault(candidate.text, candidate)
    return tuple(found.values())


def candidates_in(
    text: str, finding: Finding, seen: Sequence[SeenValue] = ()
) -> tuple[Candidate, ...]:
    """Return the candidates for a finding in source code; empty if LibCST cannot parse it.

    ``seen`` are the kinds of values that a trace of the source code saw.
    """
    try:
        return candidates(Text(text, seen), finding)
    except Unparsable:
        return ()


def continue_refused(refused: Refused, seen: Sequence[SeenValue] = ()) -> tuple[Candidate, ...]:
    """Return candidates that continue a refused rewrite which replaced the finding by new ones.
    Each also fixes the new findings, or the first of them.

    ``seen`` are the kinds of values that the trace of the rewrite saw.
    """
    if not refused.instead:
        return ()
    try:
        text = Text(refused.candidate.text, seen)
    except Unparsable:
        return ()
    first, *others = refused.instead
    made = [one for one in candidates(text, first) if not one.suggestion]
    extended = (extend_to_findings(text, one, others) for one in made)
    return tuple(refused.candidate.then(one) for one in extended)


def extend_to_findings(text: Text, candidate: Candidate, findings: Sequence[Finding]) -> Candidate:
    """Return a candidate that applies its rewrite at further findings of the text as well, and
    gives up no more.

    It is ``candidate`` itself if the rewrite does not apply at any of ``findings``.
    """
    for finding in findings:
        for other in candidates(text, finding):
            edits = merge_edits(
                edits_between(text.text, candidate.text), edits_between(text.text, other.text)
            )
            alone = dataclasses.replace(other, text=candidate.text)
            if alone == candidate and edits is not None:
                changed = apply_edits(text.text, edits)
                candidate = dataclasses.replace(candidate, text=changed)
                break
    return candidate
