"""The signatures of whatever can be called: of a binding, of a schema, of Python source."""

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
class Form:
    """One way of calling something, under the name that it is shown with.

    ``source`` is what it was read from where that says more: a schema, or a signature in Python
    that has no meaning here (then there are no parameters).
    """

    name: str
    signature: Signature
    source: str = ""


_MOST_QUOTES = 8


def call_around(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> ActiveCall | None:
    """The call around an offset, which may be in a string that is one of its arguments."""
    found = call_at(text, offset, index, seen)
    line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    quotes = [] if found is not None else [*_QUOTE.finditer(text, line, offset)][-_MOST_QUOTES:]
    for quote in reversed(quotes):
        call = call_at(text, quote.start(), index, seen)
        if call is None or call.active >= len(call.arguments):
            continue
        argument = call.arguments[call.active]
        if argument.start <= quote.start() and offset <= argument.end:
            return call
    return found


def forms(subject: Subject) -> tuple[Form, ...]:
    """All ways of calling a subject in the order in which they are tried, deprecated ones last."""
    if subject.operator is not None:
        overloads = (
            (subject.overload,) if subject.overload is not None else subject.operator.overloads
        )
        leaf = subject.operator.name.rpartition("::")[2]
        return tuple(
            Form(f"{leaf}.{overload.name or 'default'}", signature, overload.schema)
            for overload in overloads
            if (signature := of_overload(overload)) is not None
        )
    return () if subject.name is None else of_name(subject.name, subject.path)


def of_name(name: Name, path: str = "") -> tuple[Form, ...]:
    """All ways of calling a name. ``path`` is what it was called by, where that is an alias."""
    leaf = (path or name.path).rpartition(".")[2]
    if name.signatures:
        ordered = sorted(name.signatures, key=lambda signature: signature.deprecated)
        return tuple(Form(leaf, signature) for signature in ordered)
    if name.python:
        return (Form(leaf, of_python(name.python), name.python),)
    return ()


# -- schemas ----------------------------------------------------------------------------------

# Types of schemas in the words of the argument parser.
_WORDS = {
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
def of_overload(overload: Overload) -> Signature | None:
    """The signature that a schema describes; None where it cannot be read."""
    try:
        schema = parse_schema(overload.schema)
    except SchemaError:
        return None
    parameters = []
    for argument in schema.arguments:
        type_, size, optional = _words(argument.type)
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
    returns = tuple(Field(_words(result.type)[0], result.name) for result in schema.results)
    return Signature(tuple(parameters), returns, operator=overload.schema.partition("(")[0])


def _words(type_: str) -> tuple[str, int, bool]:
    """A type of a schema: its words, the size of a list, and whether None may be it."""
    found = _TYPE.fullmatch(type_)
    if found is None:
        return type_, 0, type_.endswith("?")
    base = _WORDS.get(found["base"], found["base"])
    lists = re.findall(r"\[(\d*)\]", found["lists"])
    if not lists:
        return base, 0, bool(found["optional"])
    if len(lists) > 1:
        base = f"tuple[{base}, ...]"
    return f"tuple of {base}s", int(lists[-1] or 0), bool(found["optional"])


# -- Python -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def of_python(source: str) -> Signature:
    """A signature written in Python; without parameters where the source cannot be read."""
    try:
        tree = ast.parse(f"def f{source.rstrip(':')}: ...")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Signature((), ())
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(named) - len(arguments.defaults)) + list(arguments.defaults)
    parameters = [_parameter(one, default) for one, default in zip(named, defaults, strict=True)]
    if arguments.vararg is not None:
        parameters.append(
            Parameter(
                f"*{arguments.vararg.arg}", _source(arguments.vararg.annotation), "", variadic=True
            )
        )
    parameters += [
        _parameter(one, default, keyword_only=True)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        annotation = _source(arguments.kwarg.annotation)
        parameters.append(Parameter(f"**{arguments.kwarg.arg}", annotation, keyword_only=True))
    if named and named[0].arg in ("self", "cls"):
        del parameters[0]
    returns = (Field(_source(function.returns)),) if function.returns is not None else ()
    return Signature(tuple(parameters), returns)


def _parameter(
    argument: ast.arg, default: ast.expr | None, *, keyword_only: bool = False
) -> Parameter:
    type_ = _source(argument.annotation)
    optional = "None" in type_ or "Optional" in type_
    return Parameter(argument.arg, type_, _source(default), keyword_only, optional)


def _source(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)
