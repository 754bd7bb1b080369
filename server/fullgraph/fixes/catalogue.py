"""What could end a finding: every rewrite of the catalogue that fits its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites import (
    arguments,
    autograd,
    branches,
    checks,
    counters,
    custom_operators,
    decisions,
    disable,
    dynamic,
    dynamic_outputs,
    effects,
    exports,
    imports,
    kept,
    limited,
    loops,
    masks,
    packed,
    padding,
    python,
    scalars,
    sizes,
    ternaries,
)
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, SeenValue

Rewrite = Callable[[Site], Iterator[Candidate]]
"""Makes candidates for a place, the likeliest first; none where it does not fit."""

REWRITES: tuple[Rewrite, ...] = (
    checks.checks,
    python.numpy_numbers,
    branches.branches,
    decisions.decisions,
    loops.loops,
    masks.masks,
    ternaries.ternaries,
    kept.kept,
    limited.limited,
    sizes.sizes,
    counters.counters,
    exports.checked,
    exports.read,
    exports.equal_sizes,
    custom_operators.faked,
    dynamic.dynamic,
    effects.asked_for,
    effects.not_when_compiling,
    effects.context_when_not_compiling,
    effects.progress_bar,
    effects.clock_without_time,
    effects.reordered_output,
    effects.ignored_logger,
    python.random_numbers,
    python.products,
    python.ranges,
    python.copies,
    python.unique_numbers,
    python.sorted_tensors,
    python.listed_generator,
    python.rounded,
    python.divergences,
    python.inner_class,
    python.disabled_by_decorator,
    python.watching_call,
    autograd.legacy_variables,
    autograd.constant_without_gradient,
    autograd.attribute_of_tensor,
    autograd.plain_parameter,
    scalars.tensor_arithmetic,
    scalars.tensor_index,
    scalars.comparisons,
    dynamic_outputs.masked_reduction,
    dynamic_outputs.masked_loss,
    dynamic_outputs.masked_assignment,
    dynamic_outputs.counted,
    dynamic_outputs.one_hot,
    scalars.captured,
    dynamic_outputs.captured,
    autograd.traced_gradients,
    packed.padded,
    autograd.traced_recurrence,
    autograd.effects_in_checkpoint,
    python.watching_function,
    dynamic_outputs.padded_places,
    arguments.tuples_of_iterators,
    imports.tried_at_the_top,
    effects.call_without_effect,
    disable.once_at_import,
    custom_operators.raising_fake,
    custom_operators.wrapped,
    custom_operators.without_meta,
    custom_operators.of_function,
    custom_operators.of_block,
    custom_operators.of_rest,
    padding.buckets,
    disable.left_untraced,
)
"""Those that keep most of the program's meaning come first; ways to leave code untraced last."""


def candidates(
    text: Text, finding: Finding, seen: Sequence[SeenValue] = ()
) -> tuple[Candidate, ...]:
    """What could be tried for a finding of a text, in the order in which to try it.

    None of them was tried; candidates that give the same text are one.
    """
    site = Site(text, finding, seen)
    found: dict[str, Candidate] = {}
    for rewrite in REWRITES:
        for candidate in rewrite(site):
            if candidate.text != text.text:
                found.setdefault(candidate.text, candidate)
    return tuple(found.values())
