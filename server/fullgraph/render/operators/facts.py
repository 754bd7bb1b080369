"""What matters for compilation, of one overload and of several together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from fullgraph.domain.phrases import listing
from fullgraph.operators.schema import Schema, SchemaError, parse_schema
from fullgraph.render.operators.page import Called, Fact
from fullgraph.render.operators.words import PT2_COMPLIANT
from fullgraph_engine.protocol.operators import Overload

_MOST_NAMES = 4

_Key = TypeVar("_Key", bound=Hashable)


def facts_of(overloads: Sequence[Called]) -> tuple[Fact, ...]:
    """The facts of several overloads; one that is not true of all says of which it is."""
    having: dict[Fact, list[Called]] = {}
    for called in overloads:
        for fact in _facts(called.overload):
            having.setdefault(fact, []).append(called)
    merged = [Fact(_of(fact.text, some, overloads), fact.alarming) for fact, some in having.items()]
    return tuple(sorted(merged, key=lambda fact: not fact.alarming))


def schema_of(overload: Overload) -> Schema | None:
    """The schema, read; None where it is written in a way that is not known here."""
    try:
        return parse_schema(overload.schema)
    except SchemaError:
        return None


def is_out(overload: Overload) -> bool:
    """Whether it is the variant that writes its results where the caller says."""
    schema = schema_of(overload)
    return schema is not None and any(a.is_written and a.keyword_only for a in schema.arguments)


def grouped(
    overloads: Sequence[Called], key: Callable[[Overload], _Key]
) -> Iterator[tuple[str, _Key]]:
    """Overloads of which the same is true, as a lead (```max.dim`: ``), with what that is."""
    groups: dict[_Key, list[Called]] = {}
    for called in overloads:
        groups.setdefault(key(called.overload), []).append(called)
    for value, some in groups.items():
        yield ("" if len(groups) == 1 else f"{names(some)}: "), value


def names(overloads: Sequence[Called]) -> str:
    """Overloads as a list in Markdown; of more than five the first four, and how many more."""
    shown = [f"`{called.short}`" for called in overloads]
    if len(shown) > _MOST_NAMES + 1:
        shown = [*shown[:_MOST_NAMES], f"{len(shown) - _MOST_NAMES} more"]
    return listing(shown)


def _of(text: str, some: Sequence[Called], all_: Sequence[Called]) -> str:
    if len(some) == len(all_):
        return text
    others = [called for called in all_ if called not in some]
    if len(others) < len(some):
        return f"{text} (not {names(others)})"
    return f"{text} ({names(some)})"


def _facts(overload: Overload) -> Iterator[Fact]:
    tags = overload.tags
    if overload.origin == "torchscript":
        yield Fact("known to TorchScript only")
        return
    if overload.fake == "missing":
        yield Fact("no fake kernel", alarming=True)
    if "data_dependent_output" in tags:
        yield Fact("data-dependent output", alarming=True)
    if "dynamic_output_shape" in tags:
        yield Fact("dynamic output shape", alarming=True)
    if PT2_COMPLIANT in tags:
        yield Fact("PT2-compliant")
    else:
        yield Fact("not PT2-compliant", alarming=True)
    if "core" in tags:
        yield Fact("core ATen")
    if "nondeterministic_seeded" in tags:
        yield Fact("random, by seed")
    if "inplace_view" in tags:
        yield Fact("in-place view")
    yield from _memory(overload)
    if overload.differentiable == "no":
        yield Fact("not differentiable")


def _memory(overload: Overload) -> Iterator[Fact]:
    schema = schema_of(overload)
    if schema is None:
        return
    written = [f"`{argument.name}`" for argument in schema.arguments if argument.is_written]
    if written:
        yield Fact(f"writes to {listing(written)}")
    if any(result.alias is not None and not result.alias.is_write for result in schema.results):
        implicit = "CompositeImplicitAutograd" in overload.kernels
        yield Fact("may give a view" if implicit else "gives a view")
