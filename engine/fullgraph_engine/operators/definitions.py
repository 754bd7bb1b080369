"""Find mistakes in the operators that a user's file defines with ``torch.library``.

Before the file is executed, its schemas are checked as the functions of ``torch.library`` would
check them. After it was executed, its registered operators are checked in torch's dispatcher.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..protocol import Finding, Range, place_words
from ..protocol.evidence import DefinitionEvidence
from ..targets.comments import first_line
from ..targets.source import byte_lines, name_range
from ..torch_internals import dispatcher as upstream
from . import fake
from .faults import SCHEMA_HINT, Fault, parse_or_fault
from .strings import LocatedString, OperatorDefinition, find_definitions

_DOCUMENTATION = "https://docs.pytorch.org/docs/stable/library.html#torch.library."


@dataclass(frozen=True)
class InvalidDefinition:
    """A call that defines an operator, but would raise an exception when the file is executed."""

    finding: Finding
    """Explanation of the mistake."""
    call: Range
    """Range of the call that would raise."""


# -- before the text is executed ----------------------------------------------------------------


def find_invalid_definitions(text: str) -> list[InvalidDefinition]:
    """Return the operator definitions in a file for which torch would raise an error.

    ``text`` is the content of the file. The result is empty if it has a syntax error.
    """
    return [
        InvalidDefinition(finding, definition.call)
        for definition in _parse_definitions(text)
        if (finding := _check_definition(definition)) is not None
    ]


@functools.lru_cache(maxsize=2)
def _parse_definitions(text: str) -> tuple[OperatorDefinition, ...]:
    try:
        return tuple(find_definitions(ast.parse(text), text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _check_definition(definition: OperatorDefinition) -> Finding | None:
    located = _check_qualified_name(definition) or _check_schema(definition)
    if located is None:
        return None
    where, fault = located
    return _operator_finding(
        "schema/invalid", definition, fault.message, fault.hints, definition.api, where=where
    )


LocatedFault = tuple[Range, Fault]
"""A mistake in the name or schema of an operator, and its range in the source file."""


def _check_qualified_name(definition: OperatorDefinition) -> LocatedFault | None:
    """Check that an operator's name has the form ``namespace::name``, without a reserved namespace.

    Return the mistake; None if the name is correct.
    """
    name = definition.name
    if name is None:
        return None
    parts = name.value.split("::")
    if len(parts) != 2:
        fault = Fault(
            0,
            len(name.value),
            f"`{name.value}` is not an operator name: write `namespace::name`",
            (f"For example `mylib::{parts[-1] or 'op'}`, with your project's own namespace.",),
        )
        return name.range_between(fault.start, fault.stop), fault
    if parts[0] in getattr(torch.library, "_reserved_namespaces", ()):
        fault = Fault(0, len(parts[0]), f"The namespace `{parts[0]}` is reserved")
        return name.range_between(fault.start, fault.stop), fault
    return None


def _check_schema(definition: OperatorDefinition) -> LocatedFault | None:
    text = _ParserInput.from_definition(definition)
    if text is None:
        return None
    fault = _check_schema_form(definition, text)
    if fault is not None:
        return text.fault_range(fault), fault
    parsed = parse_or_fault(text.value)
    if isinstance(parsed, Fault):
        if parsed.start < len(text.name):
            parsed = replace(
                parsed, hints=("A name consists of letters, digits and `_`, as in Python.",)
            )
        return text.fault_range(parsed), parsed
    fault = _check_arrow_spacing(definition, text)
    if fault is not None:
        return text.fault_range(fault), fault
    return _check_parsed_schema(definition, text, parsed)


@dataclass(frozen=True)
class _ParserInput:
    """The text that torch's schema parser gets for one call: an operator's name and its schema.

    Positions in this text can be converted to ranges in the source file.
    """

    value: str
    """Text of the name, followed by the schema."""
    name: str
    """Part of the text that comes from the argument for the name; empty for ``Library.define``."""
    name_string: LocatedString | None
    """Argument with the name, in the source file; None if it is not a constant string."""
    schema: LocatedString | None
    """Argument with the schema, in the source file; None if the call omits it."""

    @classmethod
    def from_definition(cls, definition: OperatorDefinition) -> _ParserInput | None:
        """Build the text that torch's schema parser receives for an operator definition.

        Returns None if neither the schema nor the name is a constant that can be checked.
        """
        schema = definition.schema
        if definition.api == "Library.define":
            return None if schema is None else cls(schema.value, "", None, schema)
        if schema is None:
            # Without a schema, `custom_op` and `triton_op` infer one, so only the name can be
            # wrong.
            is_inferred = (
                definition.api in ("custom_op", "triton_op") and definition.name is not None
            )
            if not is_inferred:
                return None
        # Use a placeholder if the name is not a constant.
        name = "op" if definition.name is None else definition.name.value.partition("::")[2]
        value = name + ("() -> ()" if schema is None else schema.value)
        return cls(value, name, definition.name, schema)

    def fault_range(self, fault: Fault) -> Range:
        """Return the range in the source file of a mistake at a position in ``value``."""
        if self.schema is not None and fault.start >= len(self.name):
            start = fault.start - len(self.name)
            return self.schema.range_between(start, fault.stop - len(self.name))
        if self.name_string is None:
            assert self.schema is not None
            return self.schema.span
        before = len(self.name_string.value) - len(self.name)
        stop = min(fault.stop, len(self.name))
        return self.name_string.range_between(before + fault.start, before + stop)


_NAMELESS = re.compile(r"\(.*\) -> .*")


def _check_schema_form(definition: OperatorDefinition, text: _ParserInput) -> Fault | None:
    """Return a mistake in a schema that torch's schema parser accepts, but ``define`` and
    ``custom_op`` reject or misread. Return None if the schema is correct.
    """
    schema, begin = definition.schema, len(text.name)
    if definition.api == "Library.define" or schema is None:
        return None
    if definition.api == "define" and "\n" in schema.value:
        at = begin + schema.value.index("\n")
        hint = "Write it as several strings, one after the other, without line breaks in them."
        message = "`torch.library.define` takes only schemas of one line"
        return Fault(at, at + 1, message, (hint,))
    # The parser accepts spaces before the parenthesis, but the pattern of `define` does not.
    value = schema.value if definition.api == "define" else schema.value.lstrip()
    if value.startswith("("):
        return None
    start = begin + len(schema.value) - len(value)
    token = re.match(r"[\w.:]+|.", value, re.S)
    if token is None:
        return Fault(start, start, "Expected `(` but found the end of the schema", (SCHEMA_HINT,))
    named = value[token.end() :].lstrip().startswith("(")
    hint = (
        "Leave out the name: it is the first argument of the call already."
        if named
        else SCHEMA_HINT
    )
    return Fault(start, start + token.end(), f"Expected `(` but found `{token[0]}`", (hint,))


def _check_arrow_spacing(definition: OperatorDefinition, text: _ParserInput) -> Fault | None:
    """Return a mistake in the spaces around a schema's arrow; None if there is none.

    ``torch.library.define`` requires one space on each side; for calls of other functions the
    result is always None.
    """
    schema = definition.schema
    pattern = getattr(torch.library, "NAMELESS_SCHEMA", _NAMELESS)
    if definition.api != "define" or schema is None or pattern.fullmatch(schema.value):
        return None
    arrow = schema.value.rfind("->")
    at = len(text.name) + max(arrow, 0)
    message = "`torch.library.define` needs one space on each side of `->`"
    return Fault(at, at + 2, message, ("As in `(Tensor x) -> Tensor`.",))


def _check_parsed_schema(
    definition: OperatorDefinition, text: _ParserInput, schema: Any
) -> LocatedFault | None:
    fault = _check_namespace(definition, text, schema) or _check_tags(definition, text, schema)
    if fault is not None:
        return text.fault_range(fault), fault
    if definition.api in ("custom_op", "triton_op") and definition.schema is not None:
        fault = _check_keyword_tensors(definition, text, schema)
        if fault is not None:
            return text.fault_range(fault), fault
        return _check_mutates_args(definition, text, schema)
    return None


def _check_namespace(
    definition: OperatorDefinition, text: _ParserInput, schema: Any
) -> Fault | None:
    if definition.api != "Library.define" or not definition.namespace:
        return None
    namespace, found, _ = schema.name.partition("::")
    if not found or namespace == definition.namespace:
        return None
    start = text.value.find(namespace)
    return Fault(
        start,
        start + len(namespace),
        f"The namespace `{namespace}` is not that of the library, `{definition.namespace}`",
        ("The library adds its namespace: leave it out of the name.",),
    )


def _check_tags(definition: OperatorDefinition, text: _ParserInput, schema: Any) -> Fault | None:
    """Return a mistake in the schema of an operator with the tag ``out`` or ``inplace``, as torch's
    validators find it.

    None if the schema is valid, or if the installed torch does not have validators for the tags.
    """
    for tag in sorted(definition.tags or ()):
        validate = getattr(torch.library, f"_validate_{tag}_schema", None)
        if validate is None or not hasattr(torch.Tag, tag):
            continue
        try:
            validate(text.value)
        except ValueError as error:
            message = str(error).partition("Got: ")[0].rstrip(" .")
            name = re.search(r"'(\w+)'", message)
            start, stop = _argument_span(text.value, schema, name[1] if name else "")
            return Fault(start, stop, message)
    return None


def _check_keyword_tensors(
    definition: OperatorDefinition, text: _ParserInput, schema: Any
) -> Fault | None:
    if definition.tags is None or "out" in definition.tags:
        return None
    if not upstream.has_keyword_only_tensors(schema):
        return None
    name = next(a.name for a in schema.arguments if a.kwarg_only and "Tensor" in str(a.type))
    start, stop = _argument_span(text.value, schema, name)
    message = f"`{definition.api}` takes no keyword-only tensors"
    return Fault(start, stop, message, ("Put the tensors before `*`.",))


def _check_mutates_args(
    definition: OperatorDefinition, text: _ParserInput, schema: Any
) -> LocatedFault | None:
    """Check that ``mutates_args`` names exactly the arguments that the schema marks with ``!``.

    Return the mistake; None if both agree, or if the value of ``mutates_args`` is not a literal.
    """
    mutates = definition.mutates
    marked = {
        a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
    }
    if mutates is None or mutates == marked:
        return None
    if marked - mutates:
        name = next(a.name for a in schema.arguments if a.name in marked - mutates)
        message = f"The schema marks `{name}` as written to, but `mutates_args` does not name it"
    else:
        name = min(mutates - marked)
        message = f"`mutates_args` names `{name}`, which the schema does not mark as written to"
        if not any(a.name == name for a in schema.arguments):
            message = f"`mutates_args` names `{name}`, which is not an argument of the schema"
    start, stop = _argument_span(text.value, schema, name)
    fault = Fault(
        start, stop, message, ("Mark an argument that the operator writes to as `Tensor(a!) x`.",)
    )
    not_found = start == 0 and stop == len(text.value)
    if not_found and definition.mutates_range is not None:
        return definition.mutates_range, fault
    return text.fault_range(fault), fault


def _argument_span(text: str, schema: Any, name: str) -> tuple[int, int]:
    """Return the start and end of the argument ``name`` in the text of a schema, with its type and
    default.

    If the argument is not found, return the span of the whole text.
    """
    spans = list(_argument_spans(text))
    names = [argument.name for argument in schema.arguments]
    if name in names and [found for found, _, _ in spans] == names:
        return spans[names.index(name)][1:]
    return 0, len(text)


def _argument_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, start and end of each argument in the text of a valid schema."""
    begin = text.index("(") + 1
    depth, start, quote = 0, begin, ""
    for at in range(begin, len(text)):
        character = text[at]
        if quote:
            if character == quote and text[at - 1] != "\\":
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([":
            depth += 1
        elif depth == 0 and character in ",)":
            declaration = text[start:at]
            name = re.match(r".*?(\w+)\s*(?:=.*)?$", declaration.strip(), re.S)
            if name is not None:
                indent = len(declaration) - len(declaration.lstrip())
                yield name[1], start + indent, start + len(declaration.rstrip())
            start = at + 1
            if character == ")":
                return
        elif character in ")]":
            depth -= 1


# -- after the text is executed -----------------------------------------------------------------


def check_registered_operators(text: str) -> list[Finding]:
    """Report mistakes in the operators that an executed file has registered.

    Examples are a missing fake kernel, a fake kernel with wrong parameters, and mutations that the
    schema does not declare. ``text`` is the content of the file.
    """
    found: list[Finding | None] = []
    checked: set[str] = set()
    for definition in _parse_definitions(text):
        name = definition.qualname
        operator = fake.find_overload(name) if name and name not in checked else None
        if operator is not None:
            checked.add(name)
            found += [
                _check_fake_exists(definition, operator),
                _check_mutation_marks(definition, operator),
            ]
            found.append(_check_fake_signature(definition, operator, text))
    return [finding for finding in found if finding is not None]


def _check_fake_exists(definition: OperatorDefinition, operator: Any) -> Finding | None:
    name = definition.qualname
    if fake.has_fake(name):
        return None
    how = f'@torch.library.register_fake("{name}")'
    if definition.api in ("custom_op", "triton_op") and definition.function:
        how = f"@{definition.function}.register_fake"
    notes: tuple[str, ...] = ()
    compliant = getattr(torch.Tag, "pt2_compliant_tag", None)
    if compliant is not None and compliant not in operator.tags:
        notes = ("The operator is also not tagged `torch.Tag.pt2_compliant_tag`.",)
    return _operator_finding(
        "schema/no-fake-kernel",
        definition,
        f"`{name}` has no fake kernel: torch.compile and torch.export cannot trace calls of it",
        (
            "Return empty tensors of the right shape, dtype and device from a function decorated "
            f"with `{how}`.",
        ),
        "register_fake",
        notes,
    )


def _check_fake_signature(
    definition: OperatorDefinition, operator: Any, text: str
) -> Finding | None:
    """Report a fake kernel that cannot take the arguments of its operator; ``text`` is the content
    of the file.

    Torch calls a fake kernel without trailing arguments that equal their defaults in the schema, so
    the fake kernel needs these defaults too.
    """
    function = upstream.user_fake_function(operator._name)
    where = _function_name_range(function, text)
    if where is None:
        return None
    arguments = operator._schema.arguments
    try:
        signature = inspect.signature(function)
        for passed in (
            arguments,
            [argument for argument in arguments if not argument.has_default_value()],
        ):
            positional = [argument.name for argument in passed if not argument.kwarg_only]
            signature.bind(
                *positional,
                **{argument.name: argument for argument in passed if argument.kwarg_only},
            )
    except ValueError:
        return None
    except TypeError as error:
        return _operator_finding(
            "schema/fake-signature",
            definition,
            f"The fake kernel of `{definition.qualname}` has other parameters than the operator: "
            f"{error}",
            (f"Give it the operator's parameters: `({_python_parameters(arguments)})`.",),
            "register_fake",
            where=where,
        )
    return None


def _function_name_range(function: Any, text: str) -> Range | None:
    """Return the range of a function's name in the ``def`` statement of a file.

    ``text`` is the content of the file. Returns None if the function is defined elsewhere.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    for node in functions:
        if node.name == code.co_name and first_line(node) == code.co_firstlineno - 1:
            return name_range(node, byte_lines(text))
    return None


def _python_parameters(arguments: Any) -> str:
    """Write the arguments of a schema as Python parameters, for example ``x, *, dim=1``."""
    parameters: list[str] = []
    for argument in arguments:
        if argument.kwarg_only and "*" not in parameters:
            parameters.append("*")
        default = f"={argument.default_value!r}" if argument.has_default_value() else ""
        parameters.append(f"{argument.name}{default}")
    return ", ".join(parameters)


def _check_mutation_marks(definition: OperatorDefinition, operator: Any) -> Finding | None:
    schema = operator._schema
    if schema.is_mutable:
        return None
    code, name = "schema/unmarked-mutation", definition.qualname
    if not schema.returns and not upstream.is_effectful(operator):
        return _operator_finding(
            code,
            definition,
            f"`{name}` returns nothing and marks no argument as written to: torch.compile may "
            "remove its calls",
            (_mutation_hint(definition),),
            definition.api,
        )
    base = schema.name.partition("::")[2]
    if base.endswith("_") and not base.endswith("__"):
        return _operator_finding(
            code,
            definition,
            f"`{name}` ends in `_` like an in-place operator, but its schema marks no argument "
            "as written to",
            (_mutation_hint(definition),),
            definition.api,
        )
    return None


def _mutation_hint(definition: OperatorDefinition) -> str:
    if definition.api in ("custom_op", "triton_op") and definition.schema is None:
        return "Name the arguments that it writes to in `mutates_args`."
    return "Mark an argument that it writes to as `Tensor(a!) x`."


def _operator_finding(
    code: str,
    definition: OperatorDefinition,
    message: str,
    hints: tuple[str, ...],
    anchor: str,
    notes: tuple[str, ...] = (),
    *,
    where: Range | None = None,
) -> Finding:
    """Return a finding about an operator; its range is the operator's name unless it is given."""
    where = where if where is not None else definition.name_range
    return Finding(
        code=code,
        message=message,
        range=where,
        hints=hints,
        href=_DOCUMENTATION + anchor,
        mode="real",
        notes=notes,
        identity=f"{code}@{place_words(where)}",
        evidence=DefinitionEvidence(definition.qualname),
    )
