"""Determine the signatures of a called name or operator, from its bindings, schemas or Python
source."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass

from fullgraph_engine.protocol.operators import Field, Name, Overload, Parameter, Signature

from .call import ActiveCall, call_at
from .index import OperatorIndex
from .schema import SchemaError, parse_schema
from .seen import NOTHING_SEEN, Seen
from .subject import Subject

_QUOTE = re.compile(r"[\"']")


@dataclass(frozen=True)
class CallForm:
    """A signature of a called function or operator, with the name to display for the function."""

    name: str
    signature: Signature
    source: str = ""
    """Schema or Python source that the signature was converted from; empty for a binding."""


_MAX_QUOTES = 8
"""Maximum number of quotes before the cursor to try as the start of a string argument."""


def call_around(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> ActiveCall | None:
    """Return the innermost call around an offset, if it calls a name of torch; else None.

    The offset may be inside a string argument. ``seen`` are the types of expressions that the last
    trace of the text recorded.
    """
    found = call_at(text, offset, index, seen)
    line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    quotes = [] if found is not None else [*_QUOTE.finditer(text, line, offset)][-_MAX_QUOTES:]
    for quote in reversed(quotes):
        call = call_at(text, quote.start(), index, seen)
        if call is None or call.active >= len(call.arguments):
            continue
        argument = call.arguments[call.active]
        if argument.start <= quote.start() and offset <= argument.end:
            return call
    return found


def call_forms(subject: Subject) -> tuple[CallForm, ...]:
    """Return all signatures of a name or operator of torch, in the order in which torch tries them.

    Deprecated signatures come last.
    """
    if subject.operator is not None:
        overloads = (
            (subject.overload,) if subject.overload is not None else subject.operator.overloads
        )
        leaf = subject.operator.name.rpartition("::")[2]
        return tuple(
            CallForm(f"{leaf}.{overload.name or 'default'}", signature, overload.schema)
            for overload in overloads
            if (signature := signature_of_overload(overload)) is not None
        )
    return () if subject.name is None else forms_of_name(subject.name, subject.path)


def forms_of_name(name: Name, path: str = "") -> tuple[CallForm, ...]:
    """Return all signatures of a name of torch, deprecated ones last.

    ``path`` is an alias of the name, to display before the signatures; empty for the name's own
    path.
    """
    leaf = (path or name.path).rpartition(".")[2]
    if name.signatures:
        ordered = sorted(name.signatures, key=lambda signature: signature.deprecated)
        return tuple(CallForm(leaf, signature) for signature in ordered)
    if name.python:
        return (CallForm(leaf, signature_of_python(name.python), name.python),)
    return ()


# -- schemas ----------------------------------------------------------------------------------

# Types as torch's argument parser names them, by the type in a schema.
_PARSER_TYPES = {
    "SymInt": "int",
    "SymBool": "bool",
    "SymFloat": "float",
    "Scalar": "Number",
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "MemoryFormat": "torch.memory_format",
    "Device": "torch.device",
    "Generator": "torch.Generator",
    "Stream": "torch.Stream",
    "Storage": "torch.Storage",
    "QScheme": "torch.qscheme",
    "Dimname": "name",
}
_TYPE = re.compile(r"(?P<base>[\w.]+)(?P<lists>(?:\?*\[\d*\])*)(?P<optional>\?*)")


@functools.lru_cache(maxsize=512)
def signature_of_overload(overload: Overload) -> Signature | None:
    """Convert an overload's schema to a signature; None if the schema cannot be parsed."""
    try:
        schema = parse_schema(overload.schema)
    except SchemaError:
        return None
    parameters = []
    for argument in schema.arguments:
        type_, size, optional = _parser_type(argument.type)
        parameters.append(
            Parameter(
                argument.name,
                type_,
                argument.default,
                keyword_only=argument.keyword_only,
                optional=optional,
                size=size,
            )
        )
    if schema.open_arguments:
        parameters.append(Parameter("*args", "", variadic=True))
    returns = tuple(Field(_parser_type(result.type)[0], result.name) for result in schema.results)
    return Signature(tuple(parameters), returns, operator=overload.schema.partition("(")[0])


def _parser_type(type_: str) -> tuple[str, int, bool]:
    """Convert a type in a schema to the name that torch's argument parser uses for it.

    Returns the name, the fixed size of a list (0 if it does not have one) and whether None is
    accepted.
    """
    found = _TYPE.fullmatch(type_)
    if found is None:
        return type_, 0, type_.endswith("?")
    base = _PARSER_TYPES.get(found["base"], found["base"])
    lists = re.findall(r"\[(\d*)\]", found["lists"])
    if not lists:
        return base, 0, bool(found["optional"])
    if len(lists) > 1:
        base = f"tuple[{base}, ...]"
    return f"tuple of {base}s", int(lists[-1] or 0), bool(found["optional"])


# -- Python -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def signature_of_python(source: str) -> Signature:
    """Parse the source of a Python signature, for example ``(self, x, *, dim=1) -> Tensor``.

    A first parameter ``self`` or ``cls`` is omitted. Returns a signature without parameters if the
    source is invalid.
    """
    try:
        tree = ast.parse(f"def f{source.rstrip(':')}: ...")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Signature((), ())
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    parameters = [
        _python_parameter(argument, default)
        for argument, default in zip(positional, defaults, strict=True)
    ]
    if arguments.vararg is not None:
        parameters.append(
            Parameter(
                f"*{arguments.vararg.arg}",
                _unparse_or_empty(arguments.vararg.annotation),
                "",
                variadic=True,
            )
        )
    parameters += [
        _python_parameter(argument, default, keyword_only=True)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        annotation = _unparse_or_empty(arguments.kwarg.annotation)
        parameters.append(Parameter(f"**{arguments.kwarg.arg}", annotation, keyword_only=True))
    if positional and positional[0].arg in ("self", "cls"):
        del parameters[0]
    returns = (Field(_unparse_or_empty(function.returns)),) if function.returns is not None else ()
    return Signature(tuple(parameters), returns)


def _python_parameter(
    argument: ast.arg, default: ast.expr | None, *, keyword_only: bool = False
) -> Parameter:
    type_ = _unparse_or_empty(argument.annotation)
    optional = "None" in type_ or "Optional" in type_
    return Parameter(argument.arg, type_, _unparse_or_empty(default), keyword_only, optional)


def _unparse_or_empty(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)
