"""Build the sections of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullgraph.domain.phrases import listing
from fullgraph.render.operators.aliasing import aliasing as aliasing_words
from fullgraph.render.operators.facts import grouped, schema_of
from fullgraph.render.operators.facts import names as short_names
from fullgraph.render.operators.page import Called, Section
from fullgraph.render.operators.words import (
    DIFFERENTIABLE,
    FAKE,
    TAGS,
    by_importance,
    is_composite,
    kernel_items,
)
from fullgraph_engine.protocol.operators import Derivative, Overload

__all__ = ["aliasing", "derivatives", "kernels", "names", "schema_of", "schemas", "tags"]


def schemas(called: Sequence[Called]) -> Section:
    """Return the section with the schemas of overloads, as torch writes them."""
    return Section("Schemas", code=tuple(one.overload.schema for one in called))


def aliasing(called: Sequence[Called]) -> Section:
    """Return the section with the aliases and mutations that the schemas of overloads declare."""

    def words(overload: Overload) -> str:
        schema = schema_of(overload)
        return "" if schema is None else aliasing_words(schema, composite=is_composite(overload))

    return Section(
        "Aliasing and mutation",
        items=tuple(f"{lead}{text}" for lead, text in grouped(called, words) if text),
    )


def kernels(called: Sequence[Called]) -> Section:
    """Return the section with dispatch keys, fake kernels and decompositions of overloads."""

    def registered(overload: Overload) -> str:
        return "; ".join(kernel_items(overload))

    def fake(overload: Overload) -> str:
        return FAKE.get(overload.fake, "")

    items = [f"{lead}{text}" for lead, text in grouped(called, registered) if text]
    items += [
        f"fake tensors{', ' if lead else ': '}{lead}{text}"
        for lead, text in grouped(called, fake)
        if text
    ]
    decomposed = [one for one in called if one.overload.decomposes]
    if decomposed:
        of = "" if len(decomposed) == len(called) else f" ({short_names(decomposed)})"
        items.append(f"has a decomposition{of}")
    return Section("Kernels", items=tuple(items))


def derivatives(called: Sequence[Called]) -> Section:
    """Return the section with the derivatives of overloads, by formula or by composition."""
    items: list[str] = []
    for lead, (how, formulas) in grouped(
        called, lambda overload: (overload.differentiable, overload.derivatives)
    ):
        words = DIFFERENTIABLE.get(how)
        if words is not None:
            items.append(f"{lead}{words}")
        of = lead.replace(": ", ", ")
        items += [f"{of}{_formula(derivative)}" for derivative in formulas]
    return Section("Derivative", items=tuple(items))


def _formula(derivative: Derivative) -> str:
    formula = " ".join(derivative.formula.split()).replace("( ", "(")
    inputs = listing(f"`{name.strip()}`" for name in derivative.inputs.split(","))
    if formula.lower() == "non_differentiable":
        return f"none for {inputs}"
    if formula.startswith("not_implemented("):
        return f"not implemented for {inputs}"
    return f"{inputs}: `{formula}`"


def tags(called: Sequence[Called]) -> Section:
    """Return the section with the tags (``torch.Tag``) of overloads; known tags are explained."""

    def items() -> Iterator[str]:
        for tag in by_importance(tag for one in called for tag in one.overload.tags):
            having = [one for one in called if tag in one.overload.tags]
            of = "" if len(having) == len(called) else f" ({short_names(having)})"
            yield f"`{tag}`{of}" + (f": {TAGS[tag]}" if tag in TAGS else "")

    return Section("Tags", items=tuple(items()))


def names(called: Sequence[Called], *known: str) -> Section:
    """Return the section with other Python names that call the same operators."""
    paths = dict.fromkeys(path for one in called for path in one.operator.names)
    shown = ", ".join(f"`{path}`" for path in paths if path not in known)
    heading = "Also called by" if known else "Python names"
    return Section(heading, items=(shown,) if shown else ())
