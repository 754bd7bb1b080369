"""What an overload writes to and what its results share memory with, in words."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.phrases import listing
from fullgraph.operators.schema import Schema, SchemaArgument, SchemaResult


def aliasing(schema: Schema, *, composite: bool) -> str:
    """``self`` is written to and returned.

    ``composite``: the overload is made of other operators. What is declared as a view may then as
    well turn out to be a copy (``reshape``), which for others it may not.
    """
    return "; ".join(_all(schema, composite))


def _all(schema: Schema, composite: bool) -> Iterator[str]:
    written = [argument for argument in schema.arguments if argument.is_written]
    returned = [
        argument for argument in written if any(_is(result, argument) for result in schema.results)
    ]
    if returned:
        yield f"{_arguments(returned)} {_are(returned)} written to and returned"
    silent = [argument for argument in written if argument not in returned]
    if silent:
        yield f"{_arguments(silent)} {_are(silent)} written to"
    views = list(_views(schema, composite))
    yield from views
    tensors = any("Tensor" in result.type for result in schema.results)
    if not written and not views:
        # Declared: what is made of other operators may end in one that returns its argument.
        yield "declared to write to nothing" + (" and to return new memory" if tensors else "")


def _views(schema: Schema, composite: bool) -> Iterator[str]:
    for place, result in enumerate(schema.results):
        alias = result.alias
        if alias is None or alias.is_write:
            continue
        name = _result(schema, place)
        if "*" in alias.before_set:
            yield f"{name} may share memory with any of the arguments"
            continue
        bases = [a for a in schema.arguments if a.alias is not None and not a.is_written]
        bases = [a for a in bases if a.alias and set(a.alias.before_set) & set(alias.before_set)]
        if bases:
            subject = f"each tensor of {name}" if alias.of_elements else name
            of = _arguments(bases)
            view = f"may be {of} or a view of it" if composite else f"is a view of {of}"
            yield f"{subject} {view}"


def _is(result: SchemaResult, argument: SchemaArgument) -> bool:
    alias, own = result.alias, argument.alias
    return alias is not None and own is not None and alias.is_write and own.may_share_memory(alias)


def _arguments(arguments: list[SchemaArgument]) -> str:
    return listing(
        f"the tensors in `{argument.name}`" if "[" in argument.type else f"`{argument.name}`"
        for argument in arguments
    )


def _are(arguments: list[SchemaArgument]) -> str:
    one = len(arguments) == 1 and "[" not in arguments[0].type
    return "is" if one else "are"


_ORDINALS = ("first", "second", "third", "fourth", "fifth")


def _result(schema: Schema, place: int) -> str:
    result = schema.results[place]
    if result.name:
        return f"`{result.name}`"
    if len(schema.results) == 1:
        return "the result"
    ordinal = _ORDINALS[place] if place < len(_ORDINALS) else f"{place + 1}th"
    return f"the {ordinal} result"
