"""Describe what an overload writes to, and what its results share memory with."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.phrases import listing
from fullgraph.operators.schema import Schema, SchemaArgument, SchemaResult


def describe_aliasing(schema: Schema, *, composite: bool) -> str:
    """Describe the aliases that a schema declares, such as: ``self`` is written to and returned.

    ``composite`` is true for overloads that call other operators. If they declare that a result is
    a view, it may be a copy (``reshape``); other overloads must return a view.
    """
    return "; ".join(_alias_clauses(schema, composite))


def _alias_clauses(schema: Schema, composite: bool) -> Iterator[str]:
    written = [argument for argument in schema.arguments if argument.is_written]
    returned = [
        argument
        for argument in written
        if any(_returns_argument(result, argument) for result in schema.results)
    ]
    if returned:
        yield f"{_argument_words(returned)} {_verb_for(returned)} written to and returned"
    silent = [argument for argument in written if argument not in returned]
    if silent:
        yield f"{_argument_words(silent)} {_verb_for(silent)} written to"
    views = list(_view_clauses(schema, composite))
    yield from views
    tensors = any("Tensor" in result.type for result in schema.results)
    if not written and not views:
        # An overload that calls other operators may still return one of its arguments.
        yield "declared to write to no arguments" + (" and to return new memory" if tensors else "")


def _view_clauses(schema: Schema, composite: bool) -> Iterator[str]:
    for place, result in enumerate(schema.results):
        alias = result.alias
        if alias is None or alias.is_write:
            continue
        name = _result_words(schema, place)
        if "*" in alias.before_set:
            yield f"{name} may share memory with any of the arguments"
            continue
        bases = [a for a in schema.arguments if a.alias is not None and not a.is_written]
        bases = [a for a in bases if a.alias and set(a.alias.before_set) & set(alias.before_set)]
        if bases:
            subject = f"each tensor of {name}" if alias.of_elements else name
            base_words = _argument_words(bases)
            view = (
                f"may be {base_words} or a view of it"
                if composite
                else f"is a view of {base_words}"
            )
            yield f"{subject} {view}"


def _returns_argument(result: SchemaResult, argument: SchemaArgument) -> bool:
    alias, own = result.alias, argument.alias
    return alias is not None and own is not None and alias.is_write and own.may_share_memory(alias)


def _argument_words(arguments: list[SchemaArgument]) -> str:
    return listing(
        f"the tensors in `{argument.name}`" if "[" in argument.type else f"`{argument.name}`"
        for argument in arguments
    )


def _verb_for(arguments: list[SchemaArgument]) -> str:
    single = len(arguments) == 1 and "[" not in arguments[0].type
    return "is" if single else "are"


_ORDINALS = ("first", "second", "third", "fourth", "fifth")


def _result_words(schema: Schema, place: int) -> str:
    result = schema.results[place]
    if result.name:
        return f"`{result.name}`"
    if len(schema.results) == 1:
        return "the result"
    ordinal = _ORDINALS[place] if place < len(_ORDINALS) else f"{place + 1}th"
    return f"the {ordinal} result"
