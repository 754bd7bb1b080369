"""Read the names of torch without a binding that torchgen generates, from torch's files.

Signatures of Python functions are taken from their source. Functions with hand-written C++ bindings
(``torch.tensor``, ``Tensor.to``) have signatures in torch's ``.pyi`` stubs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..protocol.operators import Field, Name, NameKind, Parameter, Signature
from .bindings import TENSOR_BINDINGS, TORCH_BINDINGS
from .sources import TorchSources

# Source files of the Python modules that assign C++ bindings to public names.
_MODULES = {
    "torch.nn.functional": "nn/functional.py",
    "torch.linalg": "linalg/__init__.py",
    "torch.fft": "fft/__init__.py",
    "torch.special": "special/__init__.py",
    "torch.nested": "nested/__init__.py",
    "torch.sparse": "sparse/__init__.py",
}


@dataclass(frozen=True)
class StubNames:
    """The names defined in torch's Python sources and ``.pyi`` stubs, without the generated
    bindings.
    """

    names: tuple[Name, ...]
    aliases: dict[str, str]
    """Paths of C++ bindings, by the public path to which a Python module assigns the binding."""


def collect_stub_names(found: TorchSources, bound: frozenset[str]) -> StubNames:
    """Collect the names in torch's Python sources and ``.pyi`` stubs.

    ``bound`` are the paths of bindings that torchgen generates, whose stubs are skipped.
    """
    names: dict[str, Name] = {}
    aliases: dict[str, str] = {}
    for module, file in _MODULES.items():
        body = _parse_body(found, file)
        names.update((name.path, name) for name in _module_functions(module, body))
        aliases.update(_binding_aliases(module, body, bound))
    body = _parse_body(found, "functional.py")
    functions = {name.path: name for name in _module_functions("torch", body)}
    for leaf in _listed_names(body):
        path = f"torch.{leaf}"
        names[path] = functions.get(path, Name(path, "function"))
    tensor_class = _class_body(_parse_body(found, "_tensor.py"), "Tensor")
    names.update((name.path, name) for name in _tensor_methods(tensor_class))
    base = _parse_body(found, "_C/__init__.pyi")
    functions_of_torch = _parse_body(found, "_C/_VariableFunctions.pyi")
    tensor = _class_body(base, "TensorBase")
    bodies: tuple[tuple[str, str, NameKind, list[ast.stmt]], ...] = (
        (TORCH_BINDINGS, "torch", "function", functions_of_torch),
        (TENSOR_BINDINGS, "torch.Tensor", "method", tensor),
        ("torch._C", "torch", "function", base),
    )
    for holder, module, kind, body in bodies:
        for leaf, stubs in _functions_by_name(body).items():
            path = f"{module}.{leaf}"
            hidden = leaf.startswith("_") and module == "torch"
            if path in names or f"{holder}.{leaf}" in bound or hidden:
                continue
            signatures = tuple(_stub_signature(stub, method=kind == "method") for stub in stubs)
            names[path] = Name(path, kind, signatures, f"{holder}.{leaf}")
    for name in _tensor_attributes(tensor):
        names.setdefault(name.path, name)
    return StubNames(tuple(names.values()), aliases)


def _parse_body(found: TorchSources, file: str) -> list[ast.stmt]:
    """Parse a file and return its statements; empty if it is missing or has newer Python syntax."""
    try:
        return ast.parse(found.read_text(file)).body
    except SyntaxError:
        return []


# -- torch's Python ---------------------------------------------------------------------------


def _module_functions(module: str, body: list[ast.stmt]) -> Iterator[Name]:
    inner = {leaf: _python_signature(stubs[-1]) for leaf, stubs in _functions_by_name(body).items()}
    for leaf, python in inner.items():
        if leaf[0] != "_":
            yield Name(f"{module}.{leaf}", "function", python=python)
    # `boolean_dispatch` selects one of two functions by an argument that only one of them uses.
    for leaf, value in _assignments(body):
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "boolean_dispatch":
            chosen = {one.arg: ast.unparse(one.value) for one in value.keywords}
            python = inner.get(chosen.get("if_true", ""), "")
            yield Name(f"{module}.{leaf}", "function", python=python)


def _tensor_methods(body: list[ast.stmt]) -> Iterator[Name]:
    for leaf, stubs in _functions_by_name(body).items():
        if _is_decorated(stubs[0], "property"):
            yield Name(f"torch.Tensor.{leaf}", "property")
        else:
            python = _python_signature(stubs[-1], method=True)
            yield Name(f"torch.Tensor.{leaf}", "method", python=python)


def _binding_aliases(
    module: str, body: list[ast.stmt], bound: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a public path and the path of its binding, from the assignments of a module.

    An example is ``expit = _add_docstr(_special.special_expit, ...)``. ``bound`` are the paths of
    bindings that torchgen generates.
    """
    for leaf, value in _assignments(body):
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "_add_docstr":
            value = value.args[0]
        if leaf.startswith("_") or not isinstance(value, ast.Attribute):
            continue
        holder, name = ast.unparse(value.value), value.attr
        for candidate in (
            holder,
            f"torch._C.{holder}",
            TORCH_BINDINGS if holder in ("torch", "_VF") else "",
        ):
            if candidate and f"{candidate}.{name}" in bound:
                yield f"{module}.{leaf}", f"{candidate}.{name}"
                break


def _listed_names(body: list[ast.stmt]) -> list[str]:
    """Return the names in ``__all__`` of a module."""
    listed = dict(_assignments(body)).get("__all__")
    return list(ast.literal_eval(listed)) if listed is not None else []


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value


# -- stubs ------------------------------------------------------------------------------------


def _functions_by_name(body: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    """Return the functions defined in a module or class body, by name.

    Overloads of a function are in the order of the text.
    """
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def _class_body(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    found = (one.body for one in body if isinstance(one, ast.ClassDef) and one.name == name)
    return next(found, [])


def _is_decorated(function: ast.FunctionDef, decorator: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == decorator for one in function.decorator_list)


def _python_signature(function: ast.FunctionDef, *, method: bool = False) -> str:
    """Return the source of a function's parameters without annotations, such as ``(x, dim=1)``.

    ``method`` omits the first parameter, unless the method is static.
    """
    arguments = function.args
    if method and not _is_decorated(function, "staticmethod"):
        del (arguments.posonlyargs or arguments.args)[:1]
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"({ast.unparse(arguments)})"


def _stub_signature(stub: ast.FunctionDef, *, method: bool) -> Signature:
    parameters = list(_stub_parameters(stub.args))
    if method and parameters and not _is_decorated(stub, "staticmethod"):
        del parameters[0]
    elif parameters and parameters[0].name == "self":
        parameters[0] = replace(parameters[0], name="input")
    parameters = _mark_keyword_only(parameters, ast.get_docstring(stub, clean=False) or "")
    return Signature(tuple(parameters), tuple(_return_fields(stub.returns)))


def _stub_parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    for argument, default in zip(positional, defaults, strict=True):
        yield _stub_parameter(argument, default)
    if arguments.vararg is not None:
        type_name, _ = _type_name(arguments.vararg.annotation)
        yield Parameter(arguments.vararg.arg, f"tuple of {type_name}s", variadic=True)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield replace(_stub_parameter(argument, default), keyword_only=True)


def _stub_parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    type_name, optional = _type_name(argument.annotation)
    return Parameter(
        name=argument.arg,
        type=type_name,
        default="" if default is None else _default_source(default),
        optional=optional,
        choices=_literal_choices(argument.annotation),
    )


def _mark_keyword_only(parameters: list[Parameter], documentation: str) -> list[Parameter]:
    """Mark parameters as keyword-only if the docstring's signature has them after ``*``.

    ``documentation`` is the docstring. Hand-written stubs sometimes omit the ``*``.
    """
    line = re.match(r"\s*\w+(\(.*\))", documentation)
    if line is None:
        return parameters
    try:
        function = ast.parse(f"def f{line.group(1)}: ...").body[0]
    except SyntaxError:
        return parameters
    assert isinstance(function, ast.FunctionDef)
    keyword_only = {argument.arg for argument in function.args.kwonlyargs}
    if {p.name for p in parameters if p.keyword_only} - keyword_only:
        return parameters
    return [replace(p, keyword_only=p.keyword_only or p.name in keyword_only) for p in parameters]


def _tensor_attributes(body: list[ast.stmt]) -> Iterator[Name]:
    for node in body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=leaf)) if not leaf.startswith("_"):
                signature = Signature((), tuple(_return_fields(node.annotation)))
                binding = f"{TENSOR_BINDINGS}.{leaf}"
                yield Name(f"torch.Tensor.{leaf}", "property", (signature,), binding)


# -- annotations ------------------------------------------------------------------------------

_TYPES = {
    "_int": "int",
    "SymInt": "int",
    "IntLikeType": "int",
    "_float": "float",
    "_bool": "bool",
    "_str": "str",
    "_complex": "Number",
    "Number": "Number",
    "Any": "object",
    "object": "object",
    "_dtype": "torch.dtype",
    "_layout": "torch.layout",
    "_device": "torch.device",
    "DeviceLikeType": "torch.device",
    "Device": "torch.device",
    "memory_format": "torch.memory_format",
    "_qscheme": "torch.qscheme",
    "Generator": "torch.Generator",
    "Stream": "torch.Stream",
    "Storage": "torch.Storage",
    "UntypedStorage": "torch.Storage",
    "_size": "tuple of ints",
    "_symsize": "tuple of ints",
    "Size": "torch.Size",
}

_LISTS = frozenset({"Sequence", "list", "tuple", "List", "Tuple"})
_ELEMENTS = frozenset({"Tensor", "Number", "int", "float", "bool", "str", "object"})


def _type_name(annotation: ast.expr | None) -> tuple[str, bool]:
    """Return the type of an annotation as torch's argument parser names it, and whether it accepts
    None."""
    if annotation is None:
        return "object", False
    parts, optional = [], False
    for part in _union_members(annotation):
        if isinstance(part, ast.Constant) and part.value is None:
            optional = True
        else:
            parts.append(_member_type_name(part))
    parts = list(dict.fromkeys(parts))
    # Torch's argument parser accepts a single item instead of a list, but its errors only name the
    # list.
    for type_name in list(parts):
        if type_name.startswith("tuple of "):
            parts = [p for p in parts if p == type_name or f"tuple of {p}s" != type_name]
    return " or ".join(parts) or "None", optional


def _union_members(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        yield from _union_members(annotation.left)
        yield from _union_members(annotation.right)
    else:
        yield annotation


def _member_type_name(part: ast.expr) -> str:
    if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
        inner = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
        if part.value.id == "Literal":
            kinds = {type(i.value).__name__ for i in inner if isinstance(i, ast.Constant)}
            return " or ".join(sorted(kinds)) or "object"
        repeated = len(inner) == 1 or ast.unparse(inner[-1]) in ("...", "Ellipsis")
        element = _type_name(inner[0])[0]
        if part.value.id in _LISTS and repeated and element in _ELEMENTS:
            return f"tuple of {element}s"
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return part.value
    source = ast.unparse(part)
    return _TYPES.get(source, source.replace("_int", "int"))


def _literal_choices(annotation: ast.expr | None) -> tuple[str, ...]:
    found = []
    for part in _union_members(annotation) if annotation is not None else ():
        if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
            inner = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            found += [i.value for i in inner if isinstance(i, ast.Constant)]
    return tuple(value for value in found if isinstance(value, str))


def _return_fields(annotation: ast.expr | None) -> Iterator[Field]:
    if annotation is None or (isinstance(annotation, ast.Constant) and annotation.value is None):
        return
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "tuple":
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
        if inner and ast.unparse(inner[-1]) not in ("...", "Ellipsis"):
            for item in inner:
                yield Field(_field_type(item))
            return
    yield Field(_field_type(annotation))


def _field_type(annotation: ast.expr) -> str:
    type_name, optional = _type_name(annotation)
    return f"{type_name} or None" if optional else type_name


def _default_source(value: ast.expr) -> str:
    source = ast.unparse(value)
    # Stubs name torch's constants without `torch.`: `memory_format=preserve_format`.
    return f"torch.{source}" if isinstance(value, ast.Name) else source
