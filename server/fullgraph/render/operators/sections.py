"""Build the sections of a documentation page about operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullgraph.domain.phrases import listing
from fullgraph.render.operators.aliasing import describe_aliasing as aliasing_words
from fullgraph.render.operators.facts import group_overloads, schema_of
from fullgraph.render.operators.facts import overload_names as short_names
from fullgraph.render.operators.page import CalledOverload, PageSection
from fullgraph.render.operators.words import (
    DIFFERENTIABLE,
    FAKE,
    TAGS,
    is_composite,
    kernel_items,
    sort_tags,
)
from fullgraph_engine.protocol.operators import Derivative, Overload

__all__ = [
    "aliasing_section",
    "derivatives_section",
    "kernels_section",
    "names_section",
    "schema_of",
    "schemas_section",
    "tags_section",
]


def schemas_section(called: Sequence[CalledOverload]) -> PageSection:
    """Return the section with the schemas of overloads, as torch writes them."""
    return PageSection("Schemas", code=tuple(call.overload.schema for call in called))


def aliasing_section(called: Sequence[CalledOverload]) -> PageSection:
    """Return the section with the aliases and mutations that the schemas of overloads declare."""

    def aliasing_text(overload: Overload) -> str:
        schema = schema_of(overload)
        return "" if schema is None else aliasing_words(schema, composite=is_composite(overload))

    return PageSection(
        "Aliasing and mutation",
        items=tuple(
            f"{lead}{text}" for lead, text in group_overloads(called, aliasing_text) if text
        ),
    )


def kernels_section(called: Sequence[CalledOverload]) -> PageSection:
    """Return the section with the dispatch keys of overloads, their kernels for fake tensors, and
    their decompositions."""

    def kernel_text(overload: Overload) -> str:
        return "; ".join(kernel_items(overload))

    def fake_text(overload: Overload) -> str:
        return FAKE.get(overload.fake, "")

    items = [f"{lead}{text}" for lead, text in group_overloads(called, kernel_text) if text]
    items += [
        f"fake tensors{', ' if lead else ': '}{lead}{text}"
        for lead, text in group_overloads(called, fake_text)
        if text
    ]
    decomposed = [call for call in called if call.overload.decomposes]
    if decomposed:
        suffix = "" if len(decomposed) == len(called) else f" ({short_names(decomposed)})"
        items.append(f"has a decomposition{suffix}")
    return PageSection("Kernels", items=tuple(items))


def derivatives_section(called: Sequence[CalledOverload]) -> PageSection:
    """Return the section with the derivatives of overloads: a formula, or derivatives of the
    operators that they call."""
    items: list[str] = []
    for lead, (how, formulas) in group_overloads(
        called, lambda overload: (overload.differentiable, overload.derivatives)
    ):
        words = DIFFERENTIABLE.get(how)
        if words is not None:
            items.append(f"{lead}{words}")
        prefix = lead.replace(": ", ", ")
        items += [f"{prefix}{_formula_text(derivative)}" for derivative in formulas]
    return PageSection("Derivative", items=tuple(items))


def _formula_text(derivative: Derivative) -> str:
    formula = " ".join(derivative.formula.split()).replace("( ", "(")
    inputs = listing(f"`{name.strip()}`" for name in derivative.inputs.split(","))
    if formula.lower() == "non_differentiable":
        return f"none for {inputs}"
    if formula.startswith("not_implemented("):
        return f"not implemented for {inputs}"
    return f"{inputs}: `{formula}`"


def tags_section(called: Sequence[CalledOverload]) -> PageSection:
    """Return the section with the tags (``torch.Tag``) of overloads; known tags have an
    explanation."""

    def tag_items() -> Iterator[str]:
        for tag in sort_tags(tag for call in called for tag in call.overload.tags):
            having = [call for call in called if tag in call.overload.tags]
            suffix = "" if len(having) == len(called) else f" ({short_names(having)})"
            yield f"`{tag}`{suffix}" + (f": {TAGS[tag]}" if tag in TAGS else "")

    return PageSection("Tags", items=tuple(tag_items()))


def names_section(called: Sequence[CalledOverload], *known: str) -> PageSection:
    """Return the section with other Python names that call the same overloads.

    Names in ``known`` are left out, because the page shows them already.
    """
    paths = dict.fromkeys(path for call in called for path in call.operator.names)
    shown = ", ".join(f"`{path}`" for path in paths if path not in known)
    heading = "Also called by" if known else "Python names"
    return PageSection(heading, items=(shown,) if shown else ())
