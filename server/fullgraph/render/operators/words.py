"""Explanations of operator tags, dispatch keys and the handling of fake tensors."""

from __future__ import annotations

from collections.abc import Iterable

from fullgraph_engine.protocol.operators import Differentiable, Fake, Overload

PT2_COMPLIANT = "pt2_compliant_tag"

TAGS = {
    PT2_COMPLIANT: "declared to work with `torch.compile` and `torch.export`",
    "core": "part of core ATen, the operators that decomposed graphs are made of",
    "data_dependent_output": "returns a value that depends on the data, so tracing cannot know it",
    "dynamic_output_shape": "the shape of the result depends on the data of its inputs",
    "nondeterministic_seeded": "random; the same seed gives the same result",
    "nondeterministic_bitwise": "two runs on the same inputs may differ in the last bits",
    "inplace_view": "changes the sizes or strides of `self` in place, not its data",
    "view_copy": "returns a copy where the operator without `_copy` in its name returns a view",
    "pointwise": "elementwise: each element depends on the same element of the broadcast inputs",
    "reduction": "reduces one or more dimensions to one value each",
    "maybe_aliasing_or_mutating": "may write to its arguments or return views, depending on the "
    "call; the schema does not say",
    "cudagraph_unsafe": "cannot be captured in a CUDA graph; Inductor splits its graph there",
    "needs_exact_strides": "compiled code must give it tensors with the strides of eager code",
    "needs_fixed_stride_order": "compiled code must give it tensors whose strides are ordered as "
    "in eager code",
    "needs_contiguous_strides": "compiled code must give it contiguous tensors",
    "flexible_layout": "compiled code may call the operator with tensors of any memory layout",
    "inplace": "writes to its first argument and returns it",
    "out": "only writes to its `out` arguments, and returns them",
    "out_variant": "deprecated: PyTorch ignores it; the tag `out` replaced it",
    "generated": "not in native_functions.yaml: torch's code generation adds it",
}
"""Explanation of each tag, most important tag first; tags of newer versions of torch are
missing."""

FAKE: dict[Fake, str] = {
    "kernel": "by a fake implementation",
    "meta": "by its kernel for Meta",
    "composite": "through the operators that it calls",
    "decomposition": "by its decomposition",
    "missing": "no fake kernel is registered",
}

COMPOSITES = {
    "CompositeImplicitAutograd": "CompositeImplicitAutograd, which only calls other operators",
    "CompositeExplicitAutograd": "CompositeExplicitAutograd, one kernel for all devices",
    "CompositeExplicitAutogradNonFunctional": "CompositeExplicitAutogradNonFunctional, which calls "
    "variants of the operator",
    "CompositeImplicitAutogradNestedTensor": "for nested tensors, a kernel that only calls "
    "other operators",
}

DIFFERENTIABLE: dict[Differentiable, str] = {
    "composite": "through the operators that it calls",
    "registered": "by an autograd kernel of its own",
    "no": "not differentiable",
}


def sort_tags(tags: Iterable[str]) -> list[str]:
    """Return tags without repetitions, most important first; unknown tags come last."""
    distinct = dict.fromkeys(tags)
    return [
        *(tag for tag in TAGS if tag in distinct),
        *(tag for tag in distinct if tag not in TAGS),
    ]


def is_composite(overload: Overload) -> bool:
    """Whether an overload has a ``CompositeImplicitAutograd`` kernel, which only calls other
    operators."""
    return "CompositeImplicitAutograd" in overload.kernels


def kernel_items(overload: Overload) -> list[str]:
    """Return the kernels of an overload: devices and autograd keys by name, composite kernels with
    an explanation."""
    plain = [key for key in overload.kernels if key not in COMPOSITES]
    plain.sort(key=lambda key: key.startswith("Autograd"))
    items = [COMPOSITES[key] for key in overload.kernels if key in COMPOSITES]
    return [", ".join(plain), *items] if plain else items
