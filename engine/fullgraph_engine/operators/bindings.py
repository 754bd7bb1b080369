"""Collect the Python bindings that torchgen generates for torch's C++ functions, with their
signatures.

``torchgen.packaged.autograd.gen_python_functions`` of the installed torch decides which functions
have a binding, how overloads are grouped with their out-variants, and in which order a call tries
them. This module calls its functions up to the point where torchgen would print C++.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..protocol.operators import Field, Name, Parameter, Signature
from .phrases import default_as_python, parser_type

TORCH_BINDINGS = "torch._C._VariableFunctions"
"""Path of the object with the bindings of functions such as ``torch.add``."""
TENSOR_BINDINGS = "torch._C.TensorBase"
"""Path of the class with the bindings of methods such as ``Tensor.add``."""

# Submodules of torch with bindings. For each, `gen_python_functions` has a predicate named
# `is_py_<module>_function`.
_MODULES = ("nn", "fft", "linalg", "nested", "sparse", "special")


@dataclass(frozen=True)
class Bindings:
    """The Python bindings that torchgen generates for torch's C++ functions."""

    signatures: dict[str, tuple[Signature, ...]]
    """Signatures by the dotted path of the binding, for example
    ``torch._C._linalg.linalg_norm``."""
    notes: tuple[str, ...]
    """Sentences for the user about bindings that could not be read."""


def collect_bindings(functions: list[Any], deprecated: Path) -> Bindings:
    """Collect the bindings that torchgen generates for a list of its ``NativeFunction`` objects.

    ``deprecated`` is the path of torchgen's deprecated.yaml. Functions whose signatures cannot be
    converted are skipped and counted in the notes of the result.
    """
    upstream = import_module("torchgen.packaged.autograd.gen_python_functions")
    notes: list[str] = []
    bound = [f for f in functions if _is_bound(upstream, f)]
    methods = list(upstream.load_signatures(bound, str(deprecated), method=True))
    plain = list(upstream.load_signatures(bound, str(deprecated), method=False))
    tables: list[tuple[str, str, list[Any]]] = [
        (TENSOR_BINDINGS, "is_py_variable_method", methods),
        (TORCH_BINDINGS, "is_py_torch_function", plain),
        *((f"torch._C._{module}", f"is_py_{module}_function", plain) for module in _MODULES),
    ]
    found: dict[str, tuple[Signature, ...]] = {}
    unclear = 0
    for holder, predicate, pairs in tables:
        selects: Callable[[Any], bool] | None = getattr(upstream, predicate, None)
        if selects is None:
            notes.append(f"The installed torchgen lists no Python functions for {holder}.")
            continue
        converter = _SignatureConverter(upstream, holder)
        for name, overloads in upstream.group_filter_overloads(pairs, selects).items():
            try:
                groups = upstream.group_overloads(overloads)
                ordered = sorted(
                    map(converter.convert_group, groups), key=lambda signature: signature.deprecated
                )
                found[f"{holder}.{name}"] = tuple(ordered)
            except Exception:
                unclear += 1
    if unclear:
        notes.append(f"Could not read the signatures of {unclear} Python functions.")
    return Bindings(found, tuple(dict.fromkeys(notes)))


def _is_bound(upstream: Any, function: Any) -> bool:
    try:
        return bool(upstream.should_generate_py_binding(function))
    except Exception:
        return False


class _SignatureConverter:
    """Converts torchgen's groups (a function and its out-variant) to ``Signature`` objects.

    ``upstream`` is torchgen's module ``gen_python_functions``. ``holder`` is the path of the object
    with the bindings.
    """

    def __init__(self, upstream: Any, holder: str) -> None:
        self._fields_of = upstream.structseq_fieldnames
        self._name_of = upstream.cpp.name
        self._deprecated = upstream.PythonSignatureDeprecated
        self._type_str = import_module("torchgen.api.python").argument_type_str
        self._caller = "self" if holder == TENSOR_BINDINGS else "torch"
        self._parameters: dict[tuple[str, bool, bool], Parameter] = {}

    def convert_group(self, group: Any) -> Signature:
        """Convert torchgen's ``PythonSignatureGroup`` to one :class:`Signature`."""
        python_signature, function = group.signature, group.base
        deprecated = isinstance(python_signature, self._deprecated)
        structure = self._fields_of(function.func.returns)
        return Signature(
            parameters=tuple(self._convert_parameters(python_signature)),
            returns=tuple(self._return_fields(function.func.returns)),
            structure=f"torch.return_types.{self._name_of(function.func)}" if structure else "",
            operator=qualified_overload(function),
            out="" if group.outplace is None else qualified_overload(group.outplace),
            deprecated=deprecated,
            instead=self._replacement_call(python_signature, group.outplace or function)
            if deprecated
            else "",
        )

    def _convert_parameters(self, python_signature: Any) -> Iterator[Parameter]:
        arguments = python_signature.arguments()
        positional = len(python_signature.input_args)
        for place, argument in enumerate(arguments):
            text = argument.argument_str(method=python_signature.method)
            # The argument parser accepts `*size` only if a list of ints is the sole positional
            # parameter (`allow_varargs_intlist`).
            key = (text, place >= positional, place == 0 and positional == 1)
            parameter = self._parameters.get(key)
            if parameter is None:
                parameter = self._parameters[key] = _parse_parameter(*key)
            yield parameter

    def _return_fields(self, returns: Iterable[Any]) -> Iterator[Field]:
        for item in returns:
            type_name, _, optional = parser_type(
                self._type_str(item.type).replace("const ", "").replace(" &", "")
            )
            yield Field(f"{type_name} or None" if optional else type_name, item.name or "")

    def _replacement_call(self, python_signature: Any, function: Any) -> str:
        """Return the source of the call that replaces a deprecated signature, from ``aten:`` in
        deprecated.yaml."""
        schema = function.func
        values = python_signature.deprecated_args_exprs
        arguments = [*schema.arguments.out, *schema.arguments.flat_non_out]
        keywords = {a.name for a in schema.arguments.flat_kwarg_only}
        caller, parts = self._caller, []
        for argument, value in zip(arguments, values, strict=False):
            if argument in schema.arguments.out or value == argument.default:
                continue
            if argument.name == "self" and caller == "self":
                continue
            shown = "input" if value == "self" else value
            parts.append(f"{argument.name}={shown}" if argument.name in keywords else shown)
        return f"{caller}.{schema.name.name}({', '.join(parts)})"


def _parse_parameter(text: str, keyword_only: bool, sole_positional: bool) -> Parameter:
    """Parse a parameter as torchgen writes it, for example ``Scalar alpha=1``.

    ``keyword_only`` says whether it must be passed by name, and ``sole_positional`` whether it is
    the only positional parameter of the function.
    """
    declared, equals, default = text.partition("=")
    type_text, _, name = declared.rpartition(" ")
    type_name, size, optional = parser_type(type_text)
    value = default_as_python(default) if equals else ""
    return Parameter(
        name=name,
        type=type_name,
        default=value,
        keyword_only=keyword_only,
        optional=optional or value == "None",
        size=size,
        variadic=sole_positional and type_name == "tuple of ints" and not size,
    )


def qualified_overload(function: Any) -> str:
    """Return the qualified name of a torchgen ``NativeFunction``, for example ``aten::max.dim``."""
    return f"{function.namespace}::{function.func.name}"


def names_of_bindings(
    signatures: dict[str, tuple[Signature, ...]],
    aliases: dict[str, str],
    python: dict[str, Name],
) -> Iterator[Name]:
    """Yield an index entry for each public path of a binding, such as ``torch.add``.

    ``signatures`` are by the ``torch._C`` path of the binding. ``aliases`` maps other public paths
    to these paths, as torch's Python modules assign them. ``python`` has the names that torch
    defines in Python. A binding without a public path, or whose public path is a Python function,
    is listed under its ``torch._C`` path.
    """
    public: dict[str, list[str]] = {}
    for path, binding in aliases.items():
        public.setdefault(binding, []).append(path)
    for binding, candidates in signatures.items():
        holder, _, leaf = binding.rpartition(".")
        hidden = leaf.startswith("__") and holder == TORCH_BINDINGS
        path = {TENSOR_BINDINGS: "torch.Tensor", TORCH_BINDINGS: "torch"}.get(
            holder, holder
        ) + f".{leaf}"
        if path in python or hidden:
            path = binding
        first = "" if path == binding else binding
        yield Name(path, "method" if holder == TENSOR_BINDINGS else "function", candidates, first)
        aliases_of_binding = public.get(binding, ()) if not hidden else ()
        for other in itertools.filterfalse(python.__contains__, aliases_of_binding):
            if holder in (TORCH_BINDINGS, TENSOR_BINDINGS) and path != binding:
                yield Name(other, "function", binding=binding, alias=path)
            else:
                yield Name(other, "function", candidates, binding)
