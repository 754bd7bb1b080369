"""Read the names of torch without a binding that torchgen generates, from torch's files.

Signatures of Python functions are taken from their source. Functions with hand-written C++ bindings
(``torch.tensor``, ``Tensor.to``) have signatures in torch's ``.pyi`` stubs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
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
    """The names in torch's Python sources and ``.pyi`` stubs."""

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
        text = found.read_text(file)
        names.update((name.path, name) for name in _module_functions(module, text))
        aliases.update(_binding_aliases(module, text, bound))
    text = found.read_text("functional.py")
    public = _parse_all_list(text)
    functions = {name.path: name for name in _module_functions("torch", text)}
    for leaf in public:
        path = f"torch.{leaf}"
        names[path] = functions.get(path, Name(path, "function"))
    names.update((name.path, name) for name in _tensor_methods(found.read_text("_tensor.py")))
    base = found.read_text("_C/__init__.pyi")
    tensor = _class_body(base, "TensorBase")
    bodies = (
        (TORCH_BINDINGS, "torch", "function", found.read_text("_C/_VariableFunctions.pyi"), ""),
        (TENSOR_BINDINGS, "torch.Tensor", "method", tensor, "    "),
        ("torch._C", "torch", "function", base, ""),
    )
    for holder, module, kind, text, indent in bodies:
        for leaf, stubs in _find_stubs(text, indent).items():
            path = f"{module}.{leaf}"
            hidden = leaf.startswith("_") and module == "torch"
            if path in names or f"{holder}.{leaf}" in bound or hidden:
                continue
            signatures = tuple(_stub_signatures(stubs, method=kind == "method"))
            names[path] = Name(path, kind, signatures, f"{holder}.{leaf}")  # type: ignore[arg-type]
    for name in _tensor_attributes(tensor):
        names.setdefault(name.path, name)
    return StubNames(tuple(names.values()), aliases)


# -- torch's Python ---------------------------------------------------------------------------


def _module_functions(module: str, text: str) -> Iterator[Name]:
    defined = {
        leaf: stubs[-1].python_signature()
        for leaf, stubs in _find_stubs(text, "").items()
        if leaf[0] != "_"
    }
    inner = {leaf: stubs[-1].python_signature() for leaf, stubs in _find_stubs(text, "").items()}
    for leaf, python in defined.items():
        yield Name(f"{module}.{leaf}", "function", python=python)
    # `boolean_dispatch` selects one of two functions by an argument that only one of them uses.
    for found in re.finditer(r"^(\w+) = boolean_dispatch\((.*?)^\)", text, re.M | re.S):
        leaf, arguments = found.groups()
        chosen = re.search(r"\bif_true=(\w+)", arguments)
        python = inner.get(chosen.group(1), "") if chosen else ""
        yield Name(f"{module}.{leaf}", "function", python=python)


def _tensor_methods(text: str) -> Iterator[Name]:
    for leaf, stubs in _find_stubs(_class_body(text, "Tensor"), "    ").items():
        kind: NameKind = "property" if stubs[0].is_property else "method"
        python = "" if kind == "property" else stubs[-1].python_signature(method=True)
        yield Name(f"torch.Tensor.{leaf}", kind, python=python)


def _binding_aliases(module: str, text: str, bound: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a public path and the path of its binding, from the assignments of a module.

    An example is ``expit = _add_docstr(_special.special_expit, ...)``. ``bound`` are the paths of
    bindings that torchgen generates.
    """
    for found in re.finditer(r"^(\w+) = (?:_add_docstr\(\s*)?([\w.]+)(?=[,\s])", text, re.M):
        leaf, source = found.groups()
        holder, _, name = source.rpartition(".")
        for candidate in (
            holder,
            f"torch._C.{holder}",
            TORCH_BINDINGS if holder in ("torch", "_VF") else "",
        ):
            if candidate and f"{candidate}.{name}" in bound and not leaf.startswith("_"):
                yield f"{module}.{leaf}", f"{candidate}.{name}"
                break


def _parse_all_list(text: str) -> list[str]:
    found = re.search(r"^__all__ = (\[.*?\])", text, re.M | re.S)
    return list(ast.literal_eval(found.group(1))) if found else []


# -- stubs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stub:
    """The source of a function in a ``.pyi`` stub or Python module, split by regular expressions.

    The body is omitted, except for the beginning of the docstring.
    """

    decorators: str
    """Source of the decorator lines."""
    text: str
    """Source of the parameters and the return type, from the opening parenthesis to the colon."""
    documentation: str
    """The first 400 characters after the colon, which start with the docstring."""

    @property
    def is_property(self) -> bool:
        return "@property" in self.decorators

    def parse_arguments(self) -> tuple[ast.arguments, ast.expr | None]:
        function = ast.parse(f"def f{self.text}: ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        return function.args, function.returns

    def python_signature(self, *, method: bool = False) -> str:
        """Return the source of the parameters without annotations; empty if it has a syntax error.

        ``method`` omits the first parameter, unless the method is static.
        """
        try:
            arguments, _ = self.parse_arguments()
        except SyntaxError:
            return ""
        if method and "@staticmethod" not in self.decorators:
            positional = arguments.posonlyargs or arguments.args
            del positional[:1]
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return f"({ast.unparse(arguments)})"


_TOKENS = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[()\[\]{}:]""")


def _find_stubs(text: str, indent: str) -> dict[str, list[_Stub]]:
    """Return the functions that a text defines with a given indentation, by name.

    Overloads of a function are in the order of the text.
    """
    found: dict[str, list[_Stub]] = {}
    pattern = rf"^((?:{indent}@.*\n)*){indent}def (\w+)\("
    for match in re.finditer(pattern, text, re.M):
        depth, begin = 0, match.end() - 1
        for token in _TOKENS.finditer(text, begin):
            mark = token.group()
            if mark in "([{":
                depth += 1
            elif mark in ")]}":
                depth -= 1
            elif mark == ":" and depth == 0:
                stub = _Stub(match.group(1), text[begin : token.start()], text[token.end() :][:400])
                found.setdefault(match.group(2), []).append(stub)
                break
    return found


def _class_body(text: str, name: str) -> str:
    """Return the source of a class after its ``class`` line; empty if the text does not define
    it."""
    begin = re.search(rf"^class {name}\b.*:\n", text, re.M)
    if begin is None:
        return ""
    end = re.compile(r"^(?:class |def |@|[A-Za-z_]\w* ?[=:])", re.M).search(text, begin.end())
    return text[begin.end() : end.start() if end else len(text)]


def _stub_signatures(stubs: Iterable[_Stub], *, method: bool) -> Iterator[Signature]:
    for stub in stubs:
        try:
            arguments, returns = stub.parse_arguments()
        except SyntaxError:
            continue
        parameters = list(_stub_parameters(arguments))
        if method and parameters and "@staticmethod" not in stub.decorators:
            del parameters[0]
        elif parameters and parameters[0].name == "self":
            parameters[0] = replace(parameters[0], name="input")
        parameters = _mark_keyword_only(parameters, stub.documentation)
        yield Signature(tuple(parameters), tuple(_return_fields(returns)))


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

    ``documentation`` is the beginning of the docstring. Hand-written stubs sometimes omit the
    ``*``.
    """
    line = re.match(r'[\s.]*r?"""\s*\w+(\(.*\))', documentation)
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


def _tensor_attributes(body: str) -> Iterator[Name]:
    for found in re.finditer(r"^    ([A-Za-z]\w*): (.+)$", body, re.M):
        leaf, annotation = found.groups()
        try:
            returned = ast.parse(annotation.partition("#")[0].strip(), mode="eval").body
        except SyntaxError:
            continue
        signature = Signature((), tuple(_return_fields(returned)))
        yield Name(f"torch.Tensor.{leaf}", "property", (signature,), f"{TENSOR_BINDINGS}.{leaf}")


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
