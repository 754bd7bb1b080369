"""Names that torchgen says nothing of: written in Python, or bound by hand.

Where torch's own Python defines a function, its signature is taken from the source. What C++ binds
by hand (``torch.tensor``, ``Tensor.to``) has a signature in the stubs of the wheel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..protocol.operators import Field, Name, NameKind, Parameter, Signature
from .bindings import TENSOR, TORCH
from .sources import Sources

# Python modules that give bindings their public names.
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
    """``aliases`` maps public paths to the bindings that torch's Python modules assign to them."""

    names: tuple[Name, ...]
    aliases: dict[str, str]


def written_names(found: Sources, bound: frozenset[str]) -> StubNames:
    """Names of sources and stubs; those of stubs only where ``bound`` has no binding."""
    names: dict[str, Name] = {}
    aliases: dict[str, str] = {}
    for module, file in _MODULES.items():
        text = found.read(file)
        names.update((name.path, name) for name in _functions(module, text))
        aliases.update(_assigned(module, text, bound))
    text = found.read("functional.py")
    public = _listed(text)
    functions = {name.path: name for name in _functions("torch", text)}
    for leaf in public:
        path = f"torch.{leaf}"
        names[path] = functions.get(path, Name(path, "function"))
    names.update((name.path, name) for name in _methods(found.read("_tensor.py")))
    base = found.read("_C/__init__.pyi")
    tensor = _class_body(base, "TensorBase")
    bodies = (
        (TORCH, "torch", "function", found.read("_C/_VariableFunctions.pyi"), ""),
        (TENSOR, "torch.Tensor", "method", tensor, "    "),
        ("torch._C", "torch", "function", base, ""),
    )
    for holder, module, kind, text, indent in bodies:
        for leaf, stubs in _stubs(text, indent).items():
            path = f"{module}.{leaf}"
            hidden = leaf.startswith("_") and module == "torch"
            if path in names or f"{holder}.{leaf}" in bound or hidden:
                continue
            signatures = tuple(_signatures(stubs, method=kind == "method"))
            names[path] = Name(path, kind, signatures, f"{holder}.{leaf}")  # type: ignore[arg-type]
    for name in _attributes(tensor):
        names.setdefault(name.path, name)
    return StubNames(tuple(names.values()), aliases)


# -- torch's Python ---------------------------------------------------------------------------


def _functions(module: str, text: str) -> Iterator[Name]:
    defined = {
        leaf: stubs[-1].python() for leaf, stubs in _stubs(text, "").items() if leaf[0] != "_"
    }
    inner = {leaf: stubs[-1].python() for leaf, stubs in _stubs(text, "").items()}
    for leaf, python in defined.items():
        yield Name(f"{module}.{leaf}", "function", python=python)
    # `boolean_dispatch` chooses between two functions by an argument that only one of them uses.
    for found in re.finditer(r"^(\w+) = boolean_dispatch\((.*?)^\)", text, re.M | re.S):
        leaf, arguments = found.groups()
        chosen = re.search(r"\bif_true=(\w+)", arguments)
        python = inner.get(chosen.group(1), "") if chosen else ""
        yield Name(f"{module}.{leaf}", "function", python=python)


def _methods(text: str) -> Iterator[Name]:
    for leaf, stubs in _stubs(_class_body(text, "Tensor"), "    ").items():
        kind: NameKind = "property" if stubs[0].is_property else "method"
        python = "" if kind == "property" else stubs[-1].python(method=True)
        yield Name(f"torch.Tensor.{leaf}", kind, python=python)


def _assigned(module: str, text: str, bound: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Public names of bindings: ``expit = _add_docstr(_special.special_expit, ...)``."""
    for found in re.finditer(r"^(\w+) = (?:_add_docstr\(\s*)?([\w.]+)(?=[,\s])", text, re.M):
        leaf, source = found.groups()
        holder, _, name = source.rpartition(".")
        for candidate in (
            holder,
            f"torch._C.{holder}",
            TORCH if holder in ("torch", "_VF") else "",
        ):
            if candidate and f"{candidate}.{name}" in bound and not leaf.startswith("_"):
                yield f"{module}.{leaf}", f"{candidate}.{name}"
                break


def _listed(text: str) -> list[str]:
    found = re.search(r"^__all__ = (\[.*?\])", text, re.M | re.S)
    return list(ast.literal_eval(found.group(1))) if found else []


# -- stubs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stub:
    """One ``def``: its decorators, the text from the parenthesis to the colon, and behind it."""

    decorators: str
    text: str
    documentation: str

    @property
    def is_property(self) -> bool:
        return "@property" in self.decorators

    def arguments(self) -> tuple[ast.arguments, ast.expr | None]:
        function = ast.parse(f"def f{self.text}: ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        return function.args, function.returns

    def python(self, *, method: bool = False) -> str:
        """The signature as source, without annotations."""
        try:
            arguments, _ = self.arguments()
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


def _stubs(text: str, indent: str) -> dict[str, list[_Stub]]:
    """The functions that are defined at an indentation, by name, in the order of the text."""
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
    """From the line behind ``class`` to the next thing at the left margin."""
    begin = re.search(rf"^class {name}\b.*:\n", text, re.M)
    if begin is None:
        return ""
    end = re.compile(r"^(?:class |def |@|[A-Za-z_]\w* ?[=:])", re.M).search(text, begin.end())
    return text[begin.end() : end.start() if end else len(text)]


def _signatures(stubs: Iterable[_Stub], *, method: bool) -> Iterator[Signature]:
    for stub in stubs:
        try:
            arguments, returns = stub.arguments()
        except SyntaxError:
            continue
        parameters = list(_parameters(arguments))
        if method and parameters and "@staticmethod" not in stub.decorators:
            del parameters[0]
        elif parameters and parameters[0].name == "self":
            parameters[0] = replace(parameters[0], name="input")
        parameters = _keyword_only(parameters, stub.documentation)
        yield Signature(tuple(parameters), tuple(_returned(returns)))


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    for argument, default in zip(positional, defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.vararg is not None:
        words, _ = _words(arguments.vararg.annotation)
        yield Parameter(arguments.vararg.arg, f"tuple of {words}s", variadic=True)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield replace(_parameter(argument, default), keyword_only=True)


def _parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    words, optional = _words(argument.annotation)
    return Parameter(
        name=argument.arg,
        type=words,
        default="" if default is None else _default(default),
        optional=optional,
        choices=_choices(argument.annotation),
    )


def _keyword_only(parameters: list[Parameter], documentation: str) -> list[Parameter]:
    """The first line of documentation knows of ``*`` where a stub written by hand has none."""
    line = re.match(r'[\s.]*r?"""\s*\w+(\(.*\))', documentation)
    if line is None:
        return parameters
    try:
        function = ast.parse(f"def f{line.group(1)}: ...").body[0]
    except SyntaxError:
        return parameters
    assert isinstance(function, ast.FunctionDef)
    known = {argument.arg for argument in function.args.kwonlyargs}
    if {p.name for p in parameters if p.keyword_only} - known:
        return parameters
    return [replace(p, keyword_only=p.keyword_only or p.name in known) for p in parameters]


def _attributes(body: str) -> Iterator[Name]:
    for found in re.finditer(r"^    ([A-Za-z]\w*): (.+)$", body, re.M):
        leaf, annotation = found.groups()
        try:
            returned = ast.parse(annotation.partition("#")[0].strip(), mode="eval").body
        except SyntaxError:
            continue
        signature = Signature((), tuple(_returned(returned)))
        yield Name(f"torch.Tensor.{leaf}", "property", (signature,), f"{TENSOR}.{leaf}")


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


def _words(annotation: ast.expr | None) -> tuple[str, bool]:
    """A type in the words of the argument parser, and if None may stand for it."""
    if annotation is None:
        return "object", False
    parts, optional = [], False
    for part in _union(annotation):
        if isinstance(part, ast.Constant) and part.value is None:
            optional = True
        else:
            parts.append(_single(part))
    parts = list(dict.fromkeys(parts))
    # A list of one thing may be given as that thing alone: the errors name the list.
    for words in list(parts):
        if words.startswith("tuple of "):
            parts = [p for p in parts if p == words or f"tuple of {p}s" != words]
    return " or ".join(parts) or "None", optional


def _union(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        yield from _union(annotation.left)
        yield from _union(annotation.right)
    else:
        yield annotation


def _single(part: ast.expr) -> str:
    if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
        inner = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
        if part.value.id == "Literal":
            kinds = {type(i.value).__name__ for i in inner if isinstance(i, ast.Constant)}
            return " or ".join(sorted(kinds)) or "object"
        repeated = len(inner) == 1 or ast.unparse(inner[-1]) in ("...", "Ellipsis")
        element = _words(inner[0])[0]
        if part.value.id in _LISTS and repeated and element in _ELEMENTS:
            return f"tuple of {element}s"
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return part.value
    source = ast.unparse(part)
    return _TYPES.get(source, source.replace("_int", "int"))


def _choices(annotation: ast.expr | None) -> tuple[str, ...]:
    found = []
    for part in _union(annotation) if annotation is not None else ():
        if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
            inner = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            found += [i.value for i in inner if isinstance(i, ast.Constant)]
    return tuple(value for value in found if isinstance(value, str))


def _returned(annotation: ast.expr | None) -> Iterator[Field]:
    if annotation is None or (isinstance(annotation, ast.Constant) and annotation.value is None):
        return
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "tuple":
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
        if inner and ast.unparse(inner[-1]) not in ("...", "Ellipsis"):
            for item in inner:
                yield Field(_shown(item))
            return
    yield Field(_shown(annotation))


def _shown(annotation: ast.expr) -> str:
    words, optional = _words(annotation)
    return f"{words} or None" if optional else words


def _default(value: ast.expr) -> str:
    source = ast.unparse(value)
    # Stubs name torch's own constants without torch: `memory_format=preserve_format`.
    return f"torch.{source}" if isinstance(value, ast.Name) else source
