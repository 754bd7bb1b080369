"""The Python names that torchgen generates bindings for, with the signatures that these try.

``torchgen.packaged.autograd.gen_python_functions`` of the same torch decides which functions have
a binding, how overloads are grouped with their out-variants, and in which order they are tried;
its code is called here up to the point where it would print C++.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..protocol.operators import Field, Name, Parameter, Signature
from .phrases import default_words, type_words

TORCH = "torch._C._VariableFunctions"
TENSOR = "torch._C.TensorBase"

# The modules of `gen`, with the predicate that upstream selects their functions by.
_MODULES = ("nn", "fft", "linalg", "nested", "sparse", "special")


@dataclass(frozen=True)
class Bindings:
    """Signatures by the dotted path of the C function: ``torch._C._linalg.linalg_norm``."""

    signatures: dict[str, tuple[Signature, ...]]
    notes: tuple[str, ...]


def bindings(functions: list[Any], deprecated: Path) -> Bindings:
    """All generated bindings for torchgen's ``NativeFunction``\\ s."""
    upstream = import_module("torchgen.packaged.autograd.gen_python_functions")
    notes: list[str] = []
    bound = [f for f in functions if _is_bound(upstream, f)]
    methods = _pairs(upstream, bound, deprecated, method=True, notes=notes)
    plain = _pairs(upstream, bound, deprecated, method=False, notes=notes)
    tables: list[tuple[str, str, list[Any]]] = [
        (TENSOR, "is_py_variable_method", methods),
        (TORCH, "is_py_torch_function", plain),
        *((f"torch._C._{module}", f"is_py_{module}_function", plain) for module in _MODULES),
    ]
    found: dict[str, tuple[Signature, ...]] = {}
    unclear = 0
    for holder, predicate, pairs in tables:
        selects: Callable[[Any], bool] | None = getattr(upstream, predicate, None)
        if selects is None:
            notes.append(f"This torchgen binds nothing to {holder}.")
            continue
        write = _Writer(upstream, holder)
        for name, overloads in upstream.group_filter_overloads(pairs, selects).items():
            try:
                groups = upstream.group_overloads(overloads)
                tried = sorted(
                    map(write.signature, groups), key=lambda signature: signature.deprecated
                )
                found[f"{holder}.{name}"] = tuple(tried)
            except Exception:
                unclear += 1
    if unclear:
        notes.append(f"The signatures of {unclear} Python functions are not understood.")
    return Bindings(found, tuple(dict.fromkeys(notes)))


def _is_bound(upstream: Any, function: Any) -> bool:
    try:
        return bool(upstream.should_generate_py_binding(function))
    except Exception:
        return False


def _pairs(
    upstream: Any, functions: list[Any], deprecated: Path, *, method: bool, notes: list[str]
) -> list[Any]:
    try:
        return list(upstream.load_signatures(functions, str(deprecated), method=method))
    except Exception:
        pass
    # One signature that upstream refuses must not cost all others.
    pairs: list[Any] = []
    refused = 0
    for function in functions:
        try:
            pairs += upstream.load_signatures(
                [function], str(deprecated), method=method, skip_deprecated=True
            )
        except Exception:
            try:
                pairs.append(
                    upstream.PythonSignatureNativeFunctionPair(
                        signature=upstream.signature(function, method=method), function=function
                    )
                )
            except Exception:
                refused += 1
    if refused:
        notes.append(f"torchgen has no Python signature for {refused} functions.")
    try:
        pairs += upstream.load_deprecated_signatures(
            list(pairs), str(deprecated), method=method, pyi=False
        )
    except Exception as error:
        notes.append(f"Deprecated signatures are unknown: {type(error).__name__}.")
    return pairs


class _Writer:
    """Signatures of one holder of bindings, from torchgen's groups of base and out-variant."""

    def __init__(self, upstream: Any, holder: str) -> None:
        self._fields_of = upstream.structseq_fieldnames
        self._name_of = upstream.cpp.name
        self._deprecated = upstream.PythonSignatureDeprecated
        self._type_str = import_module("torchgen.api.python").argument_type_str
        self._caller = "self" if holder == TENSOR else "torch"
        self._parameters: dict[tuple[str, bool, bool], Parameter] = {}

    def signature(self, group: Any) -> Signature:
        written, function = group.signature, group.base
        deprecated = isinstance(written, self._deprecated)
        structure = self._fields_of(function.func.returns)
        return Signature(
            parameters=tuple(self._each(written)),
            returns=tuple(self._returns(function.func.returns)),
            structure=f"torch.return_types.{self._name_of(function.func)}" if structure else "",
            operator=operator_of(function),
            out="" if group.outplace is None else operator_of(group.outplace),
            deprecated=deprecated,
            instead=self._instead(written, group.outplace or function) if deprecated else "",
        )

    def _each(self, written: Any) -> Iterator[Parameter]:
        arguments = written.arguments()
        positional = len(written.input_args)
        for place, argument in enumerate(arguments):
            text = argument.argument_str(method=written.method)
            # The parser's rule (`allow_varargs_intlist`) is for a list of ints that is the only
            # positional parameter; where a single int may stand for it, this takes the first.
            key = (text, place >= positional, place == 0 and positional == 1)
            made = self._parameters.get(key)
            if made is None:
                made = self._parameters[key] = _parameter(*key)
            yield made

    def _returns(self, returns: Iterable[Any]) -> Iterator[Field]:
        for item in returns:
            words, _, optional = type_words(_bare(self._type_str(item.type)))
            yield Field(f"{words} or None" if optional else words, item.name or "")

    def _instead(self, written: Any, function: Any) -> str:
        """The call that a deprecated signature stands for, from deprecated.yaml's own ``aten:``."""
        schema = function.func
        given = written.deprecated_args_exprs
        arguments = [*schema.arguments.out, *schema.arguments.flat_non_out]
        keywords = {a.name for a in schema.arguments.flat_kwarg_only}
        caller, parts = self._caller, []
        for argument, value in zip(arguments, given, strict=False):
            if argument in schema.arguments.out or value == argument.default:
                continue
            if argument.name == "self" and caller == "self":
                continue
            shown = "input" if value == "self" else value
            parts.append(f"{argument.name}={shown}" if argument.name in keywords else shown)
        return f"{caller}.{schema.name.name}({', '.join(parts)})"


def _parameter(text: str, keyword_only: bool, alone: bool) -> Parameter:
    declared, equals, default = text.partition("=")
    written, _, name = declared.rpartition(" ")
    words, size, optional = type_words(written)
    value = default_words(default) if equals else ""
    return Parameter(
        name=name,
        type=words,
        default=value,
        keyword_only=keyword_only,
        optional=optional or value == "None",
        size=size,
        variadic=alone and words == "tuple of ints" and not size,
    )


def _bare(written: str) -> str:
    return written.replace("const ", "").replace(" &", "")


def operator_of(function: Any) -> str:
    """The full name of a torchgen ``NativeFunction``: ``aten::max.dim``."""
    return f"{function.namespace}::{function.func.name}"


def names_of(
    signatures: dict[str, tuple[Signature, ...]],
    aliases: dict[str, str],
    python: dict[str, Name],
) -> Iterator[Name]:
    """Names for bindings: their public paths, and the bindings themselves where these differ.

    ``aliases`` maps public paths to bindings, as torch's Python modules assign them. ``python``
    are names that torch defines in Python: where one has the path of a binding, it hides it.
    """
    public: dict[str, list[str]] = {}
    for path, binding in aliases.items():
        public.setdefault(binding, []).append(path)
    for binding, tried in signatures.items():
        holder, _, leaf = binding.rpartition(".")
        hidden = leaf.startswith("__") and holder == TORCH
        path = {TENSOR: "torch.Tensor", TORCH: "torch"}.get(holder, holder) + f".{leaf}"
        if path in python or hidden:
            path = binding
        first = "" if path == binding else binding
        yield Name(path, "method" if holder == TENSOR else "function", tried, first)
        others = public.get(binding, ()) if not hidden else ()
        for other in itertools.filterfalse(python.__contains__, others):
            if holder in (TORCH, TENSOR) and path != binding:
                yield Name(other, "function", binding=binding, alias=path)
            else:
                yield Name(other, "function", tried, binding)
