"""Facts about operator overloads that matter for compilation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from fullgraph.domain.phrases import listing
from fullgraph.operators.schema import Schema, SchemaError, parse_schema
from fullgraph.render.operators.page import CalledOverload, OperatorFact
from fullgraph.render.operators.words import PT2_COMPLIANT
from fullgraph_engine.protocol.operators import Overload

_MOST_NAMES = 4

_Key = TypeVar("_Key", bound=Hashable)


def facts_of(overloads: Sequence[CalledOverload]) -> tuple[OperatorFact, ...]:
    """Return the facts of several overloads. A fact that does not apply to all of them names its
    overloads."""
    having: dict[OperatorFact, list[CalledOverload]] = {}
    for called in overloads:
        for fact in _overload_facts(called.overload):
            having.setdefault(fact, []).append(called)
    merged = [
        OperatorFact(_with_overloads(fact.text, some, overloads), fact.alarming)
        for fact, some in having.items()
    ]
    return tuple(sorted(merged, key=lambda fact: not fact.alarming))


def schema_of(overload: Overload) -> Schema | None:
    """Parse the schema of an overload; None if its syntax is unknown."""
    try:
        return parse_schema(overload.schema)
    except SchemaError:
        return None


def is_out(overload: Overload) -> bool:
    """Whether an overload writes its results to an ``out`` argument."""
    schema = schema_of(overload)
    return schema is not None and any(a.is_written and a.keyword_only for a in schema.arguments)


def group_overloads(
    overloads: Sequence[CalledOverload], key: Callable[[Overload], _Key]
) -> Iterator[tuple[str, _Key]]:
    """Group overloads by the value of ``key``; yield (prefix, value) for each group.

    The prefix names the group's overloads, as in ```max.dim`: ``; it is empty if all overloads have
    the same value.
    """
    groups: dict[_Key, list[CalledOverload]] = {}
    for called in overloads:
        groups.setdefault(key(called.overload), []).append(called)
    for value, some in groups.items():
        yield ("" if len(groups) == 1 else f"{overload_names(some)}: "), value


def overload_names(overloads: Sequence[CalledOverload]) -> str:
    """List the names of overloads in Markdown; of more than five, the first four and the number of
    others."""
    shown = [f"`{called.short}`" for called in overloads]
    if len(shown) > _MOST_NAMES + 1:
        shown = [*shown[:_MOST_NAMES], f"{len(shown) - _MOST_NAMES} more"]
    return listing(shown)


def _with_overloads(
    text: str, having: Sequence[CalledOverload], all_: Sequence[CalledOverload]
) -> str:
    if len(having) == len(all_):
        return text
    others = [called for called in all_ if called not in having]
    if len(others) < len(having):
        return f"{text} (not {overload_names(others)})"
    return f"{text} ({overload_names(having)})"


def _overload_facts(overload: Overload) -> Iterator[OperatorFact]:
    tags = overload.tags
    if overload.origin == "torchscript":
        yield OperatorFact("known to TorchScript only")
        return
    if overload.fake == "missing":
        yield OperatorFact("no fake kernel", alarming=True)
    if "data_dependent_output" in tags:
        yield OperatorFact("data-dependent output", alarming=True)
    if "dynamic_output_shape" in tags:
        yield OperatorFact("dynamic output shape", alarming=True)
    if PT2_COMPLIANT in tags:
        yield OperatorFact("PT2-compliant")
    else:
        yield OperatorFact("not PT2-compliant", alarming=True)
    if "core" in tags:
        yield OperatorFact("core ATen")
    if "nondeterministic_seeded" in tags:
        yield OperatorFact("random, depends on the seed")
    if "inplace_view" in tags:
        yield OperatorFact("in-place view")
    yield from _memory_facts(overload)
    if overload.differentiable == "no":
        yield OperatorFact("not differentiable")


def _memory_facts(overload: Overload) -> Iterator[OperatorFact]:
    schema = schema_of(overload)
    if schema is None:
        return
    written = [f"`{argument.name}`" for argument in schema.arguments if argument.is_written]
    if written:
        yield OperatorFact(f"writes to {listing(written)}")
    if any(result.alias is not None and not result.alias.is_write for result in schema.results):
        implicit = "CompositeImplicitAutograd" in overload.kernels
        yield OperatorFact("may return a view" if implicit else "returns a view")
