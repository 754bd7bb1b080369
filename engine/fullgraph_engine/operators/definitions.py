"""What is wrong, or worth knowing, about the operators that a text defines.

Before the text is executed its schemas are read as the functions of ``torch.library`` will read
them; afterwards the operators that it has registered are looked at.
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
from .faults import WHOLE, Fault, parse
from .strings import Definition, SchemaString, definitions

_DOCUMENTATION = "https://docs.pytorch.org/docs/stable/library.html#torch.library."


@dataclass(frozen=True)
class Wrong:
    """A definition that torch will refuse, and the call that will raise."""

    finding: Finding
    call: Range


# -- before the text is executed ----------------------------------------------------------------


def check_text(text: str) -> list[Wrong]:
    """The definitions of a text that torch refuses. One that does not parse has none."""
    return [
        Wrong(finding, definition.call)
        for definition in _definitions(text)
        if (finding := _check(definition)) is not None
    ]


@functools.lru_cache(maxsize=2)
def _definitions(text: str) -> tuple[Definition, ...]:
    try:
        return tuple(definitions(ast.parse(text), text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _check(definition: Definition) -> Finding | None:
    wrong = _wrong_name(definition) or _wrong_schema(definition)
    if wrong is None:
        return None
    where, fault = wrong
    return Finding(
        code="schema/invalid",
        message=fault.message,
        range=where,
        hints=fault.hints,
        href=_DOCUMENTATION + definition.api,
        mode="real",
        identity=f"schema/invalid@{place_words(where)}",
        evidence=DefinitionEvidence(definition.qualname),
    )


Complaint = tuple[Range, Fault]


def _wrong_name(definition: Definition) -> Complaint | None:
    """What ``torch.library`` demands of a qualified name."""
    name = definition.name
    if name is None:
        return None
    parts = name.value.split("::")
    if len(parts) != 2:
        fault = Fault(
            0,
            len(name.value),
            f"`{name.value}` is no name of an operator: it has to be `namespace::name`",
            (f"Such as `mylib::{parts[-1] or 'op'}`, with a namespace that is your project's.",),
        )
        return name.range(fault.start, fault.stop), fault
    if parts[0] in getattr(torch.library, "_reserved_namespaces", ()):
        fault = Fault(0, len(parts[0]), f"The namespace `{parts[0]}` is reserved")
        return name.range(fault.start, fault.stop), fault
    return None


def _wrong_schema(definition: Definition) -> Complaint | None:
    text = _Written.of(definition)
    if text is None:
        return None
    fault = _refused_form(definition, text)
    if fault is not None:
        return text.range(fault), fault
    parsed = parse(text.value)
    if isinstance(parsed, Fault):
        if parsed.start < len(text.name):
            parsed = replace(parsed, hints=("A name has letters, digits and `_`, as in Python.",))
        return text.range(parsed), parsed
    fault = _refused_spelling(definition, text)
    if fault is not None:
        return text.range(fault), fault
    return _refused_meaning(definition, text, parsed)


@dataclass(frozen=True)
class _Written:
    """The text that the parser gets: a schema, with the name that the call puts before it."""

    value: str
    name: str
    """What the call puts before the schema; empty for ``Library.define``."""
    named: SchemaString | None
    schema: SchemaString | None

    @classmethod
    def of(cls, definition: Definition) -> _Written | None:
        schema = definition.schema
        if definition.api == "Library.define":
            return None if schema is None else cls(schema.value, "", None, schema)
        if schema is None:
            # Without a schema only the name can be wrong; torch makes the rest.
            made = definition.api in ("custom_op", "triton_op") and definition.name is not None
            if not made:
                return None
        # A name that is not constant is some name.
        name = "op" if definition.name is None else definition.name.value.partition("::")[2]
        value = name + ("() -> ()" if schema is None else schema.value)
        return cls(value, name, definition.name, schema)

    def range(self, fault: Fault) -> Range:
        if self.schema is not None and fault.start >= len(self.name):
            start = fault.start - len(self.name)
            return self.schema.range(start, fault.stop - len(self.name))
        if self.named is None:
            assert self.schema is not None
            return self.schema.whole
        before = len(self.named.value) - len(self.name)
        stop = min(fault.stop, len(self.name))
        return self.named.range(before + fault.start, before + stop)


_NAMELESS = re.compile(r"\(.*\) -> .*")


def _refused_form(definition: Definition, text: _Written) -> Fault | None:
    """What ``define`` and ``custom_op`` refuse, or read as something else, though it parses."""
    schema, begin = definition.schema, len(text.name)
    if definition.api == "Library.define" or schema is None:
        return None
    if definition.api == "define" and "\n" in schema.value:
        at = begin + schema.value.index("\n")
        hint = "Write it as several strings, one after the other, without line breaks in them."
        message = "`torch.library.define` takes only schemas of one line"
        return Fault(at, at + 1, message, (hint,))
    # Space before the bracket is taken by the parser, but not by the pattern of `define`.
    value = schema.value if definition.api == "define" else schema.value.lstrip()
    if value.startswith("("):
        return None
    start = begin + len(schema.value) - len(value)
    token = re.match(r"[\w.:]+|.", value, re.S)
    if token is None:
        return Fault(start, start, "Expected `(` but found the end of the schema", (WHOLE,))
    named = value[token.end() :].lstrip().startswith("(")
    hint = "The name is the first argument of the call already." if named else WHOLE
    return Fault(start, start + token.end(), f"Expected `(` but found `{token[0]}`", (hint,))


def _refused_spelling(definition: Definition, text: _Written) -> Fault | None:
    """What the pattern of ``define`` refuses, and the parser does not."""
    schema = definition.schema
    pattern = getattr(torch.library, "NAMELESS_SCHEMA", _NAMELESS)
    if definition.api != "define" or schema is None or pattern.fullmatch(schema.value):
        return None
    arrow = schema.value.rfind("->")
    at = len(text.name) + max(arrow, 0)
    message = "`torch.library.define` takes `->` only with one space on each side"
    return Fault(at, at + 2, message, ("As in `(Tensor x) -> Tensor`.",))


def _refused_meaning(definition: Definition, text: _Written, schema: Any) -> Complaint | None:
    fault = _other_namespace(definition, text, schema) or _against_tags(definition, text, schema)
    if fault is not None:
        return text.range(fault), fault
    if definition.api in ("custom_op", "triton_op") and definition.schema is not None:
        fault = _keyword_tensor(definition, text, schema)
        if fault is not None:
            return text.range(fault), fault
        return _other_mutations(definition, text, schema)
    return None


def _other_namespace(definition: Definition, text: _Written, schema: Any) -> Fault | None:
    if definition.api != "Library.define" or not definition.namespace:
        return None
    given, found, _ = schema.name.partition("::")
    if not found or given == definition.namespace:
        return None
    start = text.value.find(given)
    return Fault(
        start,
        start + len(given),
        f"The namespace `{given}` is not that of the library, `{definition.namespace}`",
        ("The library adds its namespace: leave it away.",),
    )


def _against_tags(definition: Definition, text: _Written, schema: Any) -> Fault | None:
    """What a torch that knows the tags ``out`` and ``inplace`` demands of schemas with them."""
    for tag in sorted(definition.tags or ()):
        validate = getattr(torch.library, f"_validate_{tag}_schema", None)
        if validate is None or not hasattr(torch.Tag, tag):
            continue
        try:
            validate(text.value)
        except ValueError as error:
            message = str(error).partition("Got: ")[0].rstrip(" .")
            name = re.search(r"'(\w+)'", message)
            start, stop = _argument(text.value, schema, name[1] if name else "")
            return Fault(start, stop, message)
    return None


def _keyword_tensor(definition: Definition, text: _Written, schema: Any) -> Fault | None:
    if definition.tags is None or "out" in definition.tags:
        return None
    if not upstream.has_keyword_only_tensors(schema):
        return None
    name = next(a.name for a in schema.arguments if a.kwarg_only and "Tensor" in str(a.type))
    start, stop = _argument(text.value, schema, name)
    message = f"`{definition.api}` takes no keyword-only tensors"
    return Fault(start, stop, message, ("Put the tensors before `*`.",))


def _other_mutations(definition: Definition, text: _Written, schema: Any) -> Complaint | None:
    """``mutates_args`` has to name the arguments that the schema marks as written."""
    mutates = definition.mutates
    marked = {
        a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
    }
    if mutates is None or mutates == marked:
        return None
    if marked - mutates:
        name = next(a.name for a in schema.arguments if a.name in marked - mutates)
        message = f"The schema marks `{name}` as written, and `mutates_args` does not name it"
    else:
        name = min(mutates - marked)
        message = f"`mutates_args` names `{name}`, which the schema does not mark as written"
        if not any(a.name == name for a in schema.arguments):
            message = f"`mutates_args` names `{name}`, which is no argument of the schema"
    start, stop = _argument(text.value, schema, name)
    fault = Fault(start, stop, message, ("An argument that is written is `Tensor(a!) x`.",))
    here = start == 0 and stop == len(text.value)
    if here and definition.mutates_range is not None:
        return definition.mutates_range, fault
    return text.range(fault), fault


def _argument(text: str, schema: Any, name: str) -> tuple[int, int]:
    """The characters of an argument, type and default included; all if it is not found."""
    spans = list(_spans(text))
    names = [argument.name for argument in schema.arguments]
    if name in names and [found for found, _, _ in spans] == names:
        return spans[names.index(name)][1:]
    return 0, len(text)


def _spans(text: str) -> Iterator[tuple[str, int, int]]:
    """The arguments of a schema that parses: their names and extents."""
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
            words = text[start:at]
            name = re.match(r".*?(\w+)\s*(?:=.*)?$", words.strip(), re.S)
            if name is not None:
                indent = len(words) - len(words.lstrip())
                yield name[1], start + indent, start + len(words.rstrip())
            start = at + 1
            if character == ")":
                return
        elif character in ")]":
            depth -= 1


# -- after it was executed ----------------------------------------------------------------------


def check_registered(text: str) -> list[Finding]:
    """What the operators that a text has registered lack for being traced and compiled."""
    found: list[Finding | None] = []
    told: set[str] = set()
    for definition in _definitions(text):
        name = definition.qualname
        operator = fake.overload_of(name) if name and name not in told else None
        if operator is not None:
            told.add(name)
            found += [_lacks_fake(definition, operator), _lacks_marks(definition, operator)]
            found.append(_check_fake_signature(definition, operator, text))
    return [finding for finding in found if finding is not None]


def _lacks_fake(definition: Definition, operator: Any) -> Finding | None:
    name = definition.qualname
    if fake.has_fake(name):
        return None
    how = f'@torch.library.register_fake("{name}")'
    if definition.api in ("custom_op", "triton_op") and definition.function:
        how = f"@{definition.function}.register_fake"
    notes: tuple[str, ...] = ()
    compliant = getattr(torch.Tag, "pt2_compliant_tag", None)
    if compliant is not None and compliant not in operator.tags:
        notes = ("It is not tagged `torch.Tag.pt2_compliant_tag` either.",)
    return _note(
        "schema/no-fake-kernel",
        definition,
        f"`{name}` has no fake kernel: torch.compile and torch.export cannot trace calls of it",
        (f"Say what the results look like, with a function under `{how}`.",),
        "register_fake",
        notes,
    )


def _check_fake_signature(definition: Definition, operator: Any, text: str) -> Finding | None:
    """Report a fake kernel that cannot be called with the arguments of its operator.

    The dispatcher leaves out positional arguments at the end that equal their defaults, so a fake
    kernel needs defaults too.
    """
    function = upstream.user_fake_function(operator._name)
    where = _place_of_function(function, text)
    if where is None:
        return None
    arguments = operator._schema.arguments
    try:
        signature = inspect.signature(function)
        for given in (arguments, [one for one in arguments if not one.has_default_value()]):
            positional = [one.name for one in given if not one.kwarg_only]
            signature.bind(*positional, **{one.name: one for one in given if one.kwarg_only})
    except ValueError:
        return None
    except TypeError as error:
        code = "schema/fake-signature"
        return Finding(
            code=code,
            message=f"The fake kernel of `{definition.qualname}` has other parameters than the "
            f"operator: {error}",
            range=where,
            hints=(f"Give it the operator's parameters: `({_parameters_of(arguments)})`.",),
            href=_DOCUMENTATION + "register_fake",
            mode="real",
            identity=f"{code}@{place_words(where)}",
            evidence=DefinitionEvidence(definition.qualname),
        )
    return None


def _place_of_function(function: Any, text: str) -> Range | None:
    """The name in the text of the function that was defined there; None if there is none."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    functions = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef))
    for node in functions:
        if node.name == code.co_name and first_line(node) == code.co_firstlineno - 1:
            return name_range(node, byte_lines(text))
    return None


def _parameters_of(arguments: Any) -> str:
    """The arguments of a schema as Python writes parameters."""
    words: list[str] = []
    for one in arguments:
        if one.kwarg_only and "*" not in words:
            words.append("*")
        default = f"={one.default_value!r}" if one.has_default_value() else ""
        words.append(f"{one.name}{default}")
    return ", ".join(words)


def _lacks_marks(definition: Definition, operator: Any) -> Finding | None:
    schema = operator._schema
    if schema.is_mutable:
        return None
    code, name = "schema/unmarked-mutation", definition.qualname
    if not schema.returns and not upstream.is_effectful(operator):
        return _note(
            code,
            definition,
            f"`{name}` returns nothing and marks nothing as written: torch.compile may remove "
            "calls of it",
            (_how_to_mark(definition),),
            definition.api,
        )
    base = schema.name.partition("::")[2]
    if base.endswith("_") and not base.endswith("__"):
        return _note(
            code,
            definition,
            f"The name of `{name}` ends in `_`, as of operators that write to their first "
            "argument, and its schema marks nothing as written",
            (_how_to_mark(definition),),
            definition.api,
        )
    return None


def _how_to_mark(definition: Definition) -> str:
    if definition.api in ("custom_op", "triton_op") and definition.schema is None:
        return "Name the arguments that it writes to in `mutates_args`."
    return "Mark an argument that it writes to as `Tensor(a!) x`."


def _note(
    code: str,
    definition: Definition,
    message: str,
    hints: tuple[str, ...],
    anchor: str,
    notes: tuple[str, ...] = (),
) -> Finding:
    where = definition.name_range
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
