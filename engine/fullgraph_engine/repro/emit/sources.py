"""Sources of live functions and classes: the text that Python executed, and its syntax tree."""

from __future__ import annotations

import ast
import dis
import importlib.util
import linecache
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...code_objects import instruction_positions
from ...scopes import Function, bound_names

ModuleOrigin = Literal["torch", "standard", "third-party", "own"]

_TORCH = frozenset({"torch", "torchgen", "functorch"})
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("purelib", "platlib")}
)
_STANDARD = str(Path(sysconfig.get_path("stdlib")).resolve())
# Statements whose bodies do not open a new scope.
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def origin_of(module: str, path: str | None = None) -> ModuleOrigin:
    """Return who provides a module: Python, torch, a third-party package or the user.

    If the module's name does not decide it, ``path``, its file, does.
    """
    top = module.partition(".")[0]
    if top in _TORCH:
        return "torch"
    if top in sys.stdlib_module_names and top != "__main__":
        return "standard"
    if path is None:
        path = getattr(sys.modules.get(module), "__file__", None)
    return _origin_of_path(path) if isinstance(path, str) else "own"


def _origin_of_path(path: str) -> ModuleOrigin:
    parts = Path(path).parts
    if "site-packages" in parts or "dist-packages" in parts or path.startswith(_LIBRARIES):
        return "third-party"
    return "standard" if path.startswith(_STANDARD) else "own"


def has_compiled_parts(package: str) -> bool:
    """Whether a package has loaded extension modules (compiled code)."""
    prefix = package + "."
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(prefix):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path.endswith((".so", ".pyd", ".dylib")):
                return True
    return False


@dataclass
class SourceSyntax:
    """The syntax tree of a file, with an index of its functions and classes."""

    path: str
    tree: ast.Module
    _around: dict[int, tuple[ast.AST, ...]] = field(default_factory=dict)
    _functions: dict[int, list[Function | ast.Lambda]] = field(default_factory=dict)
    _classes: dict[str, list[ast.ClassDef]] = field(default_factory=dict)
    _binding: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._index_definitions(self.tree, ())
        for statement in statements_of(self.tree.body):
            for name in bound_names([statement]):
                self._binding.setdefault(name, []).append(statement)

    def _index_definitions(self, node: ast.AST, around: tuple[ast.AST, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            within = around
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                self._around[id(child)] = around
                self._functions.setdefault(first_line(child), []).append(child)
                within = (*around, child)
            elif isinstance(child, ast.ClassDef):
                self._around[id(child)] = around
                self._classes.setdefault(child.name, []).append(child)
                within = (*around, child)
            self._index_definitions(child, within)

    @property
    def lazy_annotations(self) -> bool:
        return any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in self.tree.body
        )

    def enclosing_definitions(self, node: ast.AST) -> tuple[ast.AST, ...]:
        """Return the functions and classes around a definition, outermost first."""
        return self._around[id(node)]

    def binding(self, name: str) -> list[ast.stmt]:
        """Return the module-level statements that bind a name, in file order."""
        return self._binding.get(name, [])

    def function(self, code: types.CodeType) -> Function | ast.Lambda | None:
        """Return the definition that a code object was compiled from, or None if not found."""
        if code.co_name == "<lambda>":
            return self._find_lambda(code)
        for node in self._functions.get(code.co_firstlineno, []):
            if not isinstance(node, ast.Lambda) and node.name == code.co_name:
                return node
        return None

    def _find_lambda(self, code: types.CodeType) -> ast.Lambda | None:
        # A lambda's code starts at the line of its first token.
        on_line = self._functions.get(code.co_firstlineno, [])
        found = [node for node in on_line if isinstance(node, ast.Lambda)]
        if len(found) > 1:
            found = [node for node in found if _has_same_code(node, code)]
        return found[0] if found else None

    def find_class(self, cls: type) -> ast.ClassDef | None:
        """Return the definition of a class by its qualified name and the lines of its methods."""
        path = cls.__qualname__.split(".")
        found = self._classes.get(path[-1], [])
        line = cls.__dict__.get("__firstlineno__")  # since Python 3.13
        exact = [node for node in found if first_line(node) == line]
        if exact:
            return exact[0]
        named = [node for node in found if self._qualified_name(node) == path]
        if len(named) > 1:
            lines = [function.__code__.co_firstlineno for function in own_functions(cls)]
            within = [
                node
                for node in named
                if lines and all(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
            ]
            return within[0] if within else named[-1]
        return named[0] if named else None

    def _qualified_name(self, node: ast.ClassDef) -> list[str]:
        parts: list[str] = []
        for outer in self.enclosing_definitions(node):
            if isinstance(outer, ast.ClassDef):
                parts.append(outer.name)
            elif not isinstance(outer, ast.Lambda):
                parts += [outer.name, "<locals>"]  # type: ignore[attr-defined]
        return [*parts, node.name]


def statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a scope, including those in nested blocks such as ``if``.

    The blocks under ``if TYPE_CHECKING`` and ``if __name__ == "__main__"`` are left out.
    """
    for node in body:
        if isinstance(node, ast.If) and _is_never(node.test):
            yield from statements_of(node.orelse)
        elif isinstance(node, _BLOCKS) or type(node).__name__ == "TryStar":
            if isinstance(node, (ast.For, ast.With)):
                yield node
            for name in ("body", "orelse", "finalbody"):
                yield from statements_of(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from statements_of(handler.body)
        else:
            yield node


def _is_never(test: ast.expr) -> bool:
    if isinstance(test, ast.Name):
        return test.id == "TYPE_CHECKING"
    if isinstance(test, ast.Attribute):
        return test.attr == "TYPE_CHECKING"
    return is_main_guard(test)


def is_main_guard(test: ast.expr) -> bool:
    """Whether a condition is ``__name__ == "__main__"``."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
    )


def first_line(node: Function | ast.ClassDef | ast.Lambda) -> int:
    """Return the first line of a definition, including decorators."""
    if isinstance(node, ast.Lambda):
        return node.lineno
    return min([decorator.lineno for decorator in node.decorator_list] + [node.lineno])


def own_functions(cls: type) -> Iterator[types.FunctionType]:
    """Yield the functions that a class body defines, also those inside properties or static
    methods.
    """
    for value in vars(cls).values():
        function = unwrap_descriptor(value)
        if function is not None and function.__module__ == cls.__module__:
            yield function


def unwrap_descriptor(value: object) -> types.FunctionType | None:
    """Return the function inside a static method, class method or property, or None for others."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, types.FunctionType) else None


def unwrap_wrappers(function: object) -> object:
    """Return the function that remains after removing all ``functools.wraps`` wrappers."""
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        inner = getattr(function, "__dict__", {}).get("__wrapped__")
        if inner is None:
            break
        function = inner
    return function


_texts: dict[str, tuple[list[str], SourceSyntax | None]] = {}


def text_of(path: str, namespace: Mapping[str, Any] | None = None) -> SourceSyntax | None:
    """Return the syntax tree of a file as it was executed; None if its source is unknown.

    ``namespace`` is the executed module. The editor's unsaved text comes from ``linecache``.
    """
    lines = linecache.getlines(path, dict(namespace) if namespace is not None else None)
    if not lines:
        return None
    known = _texts.get(path)
    if known is not None and known[0] == lines:
        return known[1]
    try:
        text = SourceSyntax(path, ast.parse("".join(lines)))
    except (SyntaxError, ValueError, RecursionError):
        text = None
    _texts[path] = (list(lines), text)
    return text


@dataclass(frozen=True)
class Home:
    """The namespace of a module, and the syntax tree of the source that was executed in it."""

    name: str
    namespace: dict[str, Any]
    text: SourceSyntax | None

    @property
    def origin(self) -> ModuleOrigin:
        return origin_of(self.name, self.namespace.get("__file__"))


Key = tuple[int, str]
"""Key of a variable: the ``id`` of its namespace or closure cell, and its name."""


@dataclass(frozen=True)
class ResolvedName:
    """The value of a name that some code uses, and where the name is bound.

    ``home`` is the module that binds the name. It is None if a closure or an import inside a
    function binds it.
    """

    value: Any
    key: Key
    name: str
    home: Home | None = None
    spelling: tuple[str, str] | None = None
    """Module and name by which the user imports the value from another package."""


def home_of(namespace: dict[str, Any], path: str | None = None) -> Home:
    """Return a module's namespace with its syntax tree; ``path`` is its file, by default
    ``__file__``.
    """
    file = path or namespace.get("__file__")
    text = text_of(file, namespace) if isinstance(file, str) else None
    return Home(str(namespace.get("__name__", "")), namespace, text)


def home_of_function(function: types.FunctionType) -> Home:
    """Return the namespace and source of a function, from its globals and its code's file."""
    return home_of(function.__globals__, function.__code__.co_filename)


def home_of_class(cls: type) -> Home | None:
    """Return the namespace and source of the module that defines a class; None if it is not loaded.

    The class's methods give the file; methods from files like ``<string>`` are ignored.
    """
    for function in own_functions(cls):
        inner = unwrap_wrappers(function)
        if isinstance(inner, types.FunctionType) and inner.__code__.co_filename[:1] != "<":
            return home_of_function(inner)
    module = sys.modules.get(cls.__module__)
    return home_of(vars(module)) if module is not None else None


def imported_from(home: Home, node: ast.ImportFrom) -> str:
    """Return the absolute module name of a ``from`` import in the module ``home``."""
    if not node.level:
        return node.module or ""
    package = home.namespace.get("__package__") or home.name.rpartition(".")[0]
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return node.module or ""


def _has_same_code(node: ast.Lambda, code: types.CodeType) -> bool:
    columns = [(place.lineno, place.col_offset) for place in instruction_positions(code)]
    if columns:
        body = node.body
        end = (body.end_lineno or 0, body.end_col_offset or 0)
        return any((body.lineno, body.col_offset) <= place < end for place in columns[1:])
    compiled = compile(ast.Expression(node), "<lambda>", "eval")
    inner = next(const for const in compiled.co_consts if isinstance(const, types.CodeType))
    return _code_shape(inner) == _code_shape(code)


def _code_shape(code: types.CodeType) -> tuple[object, ...]:
    names = [(instruction.opname, instruction.argrepr) for instruction in dis.Bytecode(code)]
    return (code.co_varnames, tuple(names))
