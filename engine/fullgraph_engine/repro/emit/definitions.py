"""Definitions in source text for live functions and classes, with the definitions that they use."""

from __future__ import annotations

import ast
import builtins
import copy
import sys
import types
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from ...scopes import Function, Use, bound_names, uses
from . import cleaning, paths, sources
from .printer import ProgramBuilder
from .sources import Home, ModuleOrigin, ResolvedName
from .unwritable import UnwritableValue

_PLAIN_NAMES = frozenset(
    {"__name__", "__file__", "__doc__", "__builtins__", "__package__", "__spec__", "__loader__"}
)


@dataclass(frozen=True)
class WantedDefinition:
    """A function or class that the generated program must define.

    ``name`` is its name in the program, and ``hint`` a preferred name. ``module`` and ``qualified``
    are its own module and qualified name. ``found`` is the variable by which the user's code refers
    to it. ``inside`` is the class whose body contains its definition, if any.
    """

    thing: Any
    hint: str
    module: str
    qualified: str
    origin: ModuleOrigin
    found: ResolvedName | None = None
    inside: type | None = None
    name: str = ""


@dataclass(frozen=True)
class NameContext:
    """The values of the names that a piece of code reads but does not define.

    The values come from the namespace of the module ``home``, from closure cells (``cells``), and
    from imports inside functions (``local``).
    """

    home: Home
    cells: dict[str, types.CellType] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    """Values of the names that imports inside functions bind."""

    def find(self, name: str) -> ResolvedName | None:
        if name in self.local:
            value = self.local[name]
            return ResolvedName(value, (id(value), name), name)
        if name in self.cells:
            cell = self.cells[name]
            try:
                return ResolvedName(cell.cell_contents, (id(cell), name), name)
            except ValueError:
                raise UnwritableValue(f"`{name}` of a closure has no value") from None
        if name in _PLAIN_NAMES or name not in self.home.namespace:
            return None
        namespace = self.home.namespace
        return ResolvedName(namespace[name], (id(namespace), name), name, self.home)

    def knows(self, name: str) -> bool:
        return self.find(name) is not None or hasattr(builtins, name)


# -- facts about functions and classes ------------------------------------------------------------


def is_referable(value: object) -> bool:
    """Whether programs write a value as a name, as for functions, classes and modules."""
    # Python 3.10 treats `list[int]` as a class.
    if is_bound_builtin(value) or type(value) is types.GenericAlias:
        return False
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return True
    if isinstance(value, types.MethodType):
        return isinstance(value.__self__, type)
    if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return True
    return callable(value) and not _is_instance(value) and paths.public_path(value) is not None


def is_bound_builtin(value: object) -> bool:
    """Whether a value is a bound builtin method, such as ``[].append``."""
    return isinstance(value, types.BuiltinFunctionType) and not isinstance(
        value.__self__, (type, types.ModuleType, type(None))
    )


def _is_instance(value: object) -> bool:
    """Whether a value is an instance of ``torch.nn.Module`` or ``torch.Tensor``."""
    return isinstance(value, (torch.nn.Module, torch.Tensor))


def is_defined(found: ResolvedName) -> bool:
    """Whether a variable holds the result of a ``def`` or ``class`` statement, possibly with
    decorators.

    A decorator such as ``torch.library.custom_op`` may replace the function by another callable
    object. Modules and tensors do not count.
    """
    value = found.value
    if found.home is None or found.home.text is None or not callable(value):
        return False
    if _is_instance(value):
        return False
    binding = found.home.text.binding(found.name)
    return bool(binding) and isinstance(binding[-1], (ast.FunctionDef, ast.ClassDef))


def import_of(found: ResolvedName) -> tuple[str, str] | None:
    """Return the module and name of the user's ``from`` import that binds a variable, or None.

    The generated program then writes the same import.
    """
    home = found.home
    if home is None or home.text is None:
        return None
    for node in reversed(home.text.binding(found.name)):
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if (alias.asname or alias.name) == found.name:
                module = sources.imported_from(home, node)
                loaded = sys.modules.get(module)
                if loaded is not None and getattr(loaded, alias.name, None) is found.value:
                    return module, alias.name
    return None


def describe_definition(thing: Any, found: ResolvedName | None) -> WantedDefinition:
    """Describe a function or class for a generated program, without reading its source.

    ``found`` is the variable by which the user's code refers to it; None if there is none.
    """
    module = getattr(thing, "__module__", None)
    qualified = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    if not isinstance(module, str) or not isinstance(qualified, str):
        if found is None or found.home is None:
            named = f"`{qualified}`" if qualified else f"a {type(thing).__name__}"
            raise UnwritableValue(f"{named} cannot be written as code")
        module, qualified = found.home.name, found.name
    if found is None or found.home is None:
        found = _module_level_name(thing, module, qualified) or found
    path = getattr(getattr(thing, "__code__", None), "co_filename", None)
    if found is not None and found.home is not None:
        module = found.home.name or module
        path = found.home.namespace.get("__file__", path)
    origin = sources.origin_of(module, path)
    hint = qualified.rpartition(".")[2]
    inside = _owner_class(thing, module, qualified) if found is None else None
    if hint.startswith("<"):
        hint = found.name if found is not None else _name_of(thing)
    return WantedDefinition(thing, hint, module, qualified, origin, found, inside)


def _name_of(function: Any) -> str:
    """Return the first global name of a lambda in its module, or "function"."""
    space = getattr(function, "__globals__", {})
    return next((name for name, value in space.items() if value is function), "function")


def _module_level_name(thing: Any, module: str, name: str) -> ResolvedName | None:
    """Return the module-level variable ``name`` of ``module`` if it holds ``thing``, otherwise
    None.
    """
    spaces = [getattr(thing, "__globals__", None), vars(sys.modules.get(module, sys))]
    for space in spaces:
        if isinstance(space, dict) and _is_same_function(space.get(name), thing):
            return ResolvedName(thing, (id(space), name), name, _home_with(space, thing))
    return None


def _home_with(space: dict[str, Any], thing: Any) -> Home:
    inner = sources.unwrap_wrappers(thing)
    if isinstance(inner, types.FunctionType) and inner.__globals__ is space:
        return sources.home_of_function(inner)
    if isinstance(thing, type):
        home = sources.home_of_class(thing)
        if home is not None and home.namespace is space:
            return home
    return sources.home_of(space)


def _is_same_function(one: Any, other: Any) -> bool:
    if one is other:
        return True
    compiled = isinstance(one, types.FunctionType)
    return compiled and one.__dict__.get("_torchdynamo_orig_callable") is other


def _owner_class(thing: Any, module: str, qualified: str) -> type | None:
    """Return the class whose body defines ``thing`` (a function or class); None if no class does.

    ``module`` and ``qualified`` are the module and qualified name of ``thing``.
    """
    outer, _, name = qualified.rpartition(".")
    if not outer or outer.endswith("<locals>"):
        return None
    space: Any = getattr(thing, "__globals__", None) or vars(sys.modules.get(module, sys))
    parts = outer.split(".")
    owner = space.get(parts[0]) if isinstance(space, dict) else None
    for part in parts[1:]:
        owner = getattr(owner, part, None)
    member = vars(owner).get(name) if isinstance(owner, type) else None
    return owner if thing is member or thing is sources.unwrap_descriptor(member) else None


# -- writing a definition -------------------------------------------------------------------------


def write_definition(program: ProgramBuilder, wanted: WantedDefinition) -> None:
    """Add the definition of a function or class to the generated program.

    Raises:
        UnwritableValue: The definition cannot be written as source text.
    """
    thing = wanted.thing
    if isinstance(thing, type):
        _write_class(program, wanted, thing)
        return
    found = wanted.found
    if found is not None and _copy_definition(program, wanted, found):
        return
    if isinstance(thing, types.FunctionType) and _write_code(program, wanted, thing):
        return
    if found is not None and copy_binding(program, found):
        return
    raise UnwritableValue(f"`{wanted.hint}` cannot be written as code")


def _copy_definition(
    program: ProgramBuilder, wanted: WantedDefinition, found: ResolvedName
) -> bool:
    """Copy the ``def`` statement of a function into the generated program, with its decorators.

    ``found`` is the module-level variable with the function. Return False if the statement is not
    found.
    """
    home = found.home
    if home is None or home.text is None:
        return False
    nodes = [
        node
        for node in home.text.binding(found.name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    inner = sources.unwrap_wrappers(found.value)
    line = getattr(getattr(inner, "__code__", None), "co_firstlineno", None)
    exact = [node for node in nodes if sources.first_line(node) == line]
    if not exact and isinstance(wanted.thing, types.FunctionType):
        code = wanted.thing.__code__
        here = home.text.function(code) if home.text.path == code.co_filename else None
        if here is not None and not home.text.enclosing_definitions(here):
            return False  # the name was bound by an assignment, not by a definition
    if not exact and not nodes:
        return False
    original = (exact or nodes)[-1]
    program.mark_copied(original)
    node = copy.deepcopy(original)
    program.visit(home)
    for function in (wanted.thing, sources.unwrap_wrappers(wanted.thing)):
        program.add_mentioned(function)
    _append_renamed(program, NameContext(home), node, wanted.name, wanted.thing)
    return True


def _write_code(
    program: ProgramBuilder, wanted: WantedDefinition, function: types.FunctionType
) -> bool:
    """Add the definition of a lambda, or of a function that was defined inside another function.

    The definition is found by the function's code object. Return False if it is not found.
    """
    home = sources.home_of_function(function)
    if home.text is None or home.origin in ("torch", "standard"):
        return False
    original = home.text.function(function.__code__)
    if original is None:
        return False
    program.visit(home)
    program.add_mentioned(function)
    node = copy.deepcopy(original)
    cells = _closure_cells([function])
    context = NameContext(home, cells)
    if home.text.enclosing_definitions(original):
        _set_defaults(program, node, function)
    if isinstance(node, ast.Lambda):
        target = ast.Name(wanted.name, ast.Store())
        rewritten = rewrite_names(program, context, ast.Expression(node), keep_annotations=False)
        statement = ast.Assign([target], rewritten.body, lineno=0)
        program.append(ast.fix_missing_locations(statement))
        return True
    node.decorator_list = []
    _append_renamed(program, context, node, wanted.name, function)
    return True


def _write_class(program: ProgramBuilder, wanted: WantedDefinition, cls: type) -> None:
    home = sources.home_of_class(cls)
    original = home.text.find_class(cls) if home is not None and home.text is not None else None
    if home is None or home.text is None or original is None:
        if wanted.found is not None and copy_binding(program, wanted.found):
            return
        raise UnwritableValue(f"the class `{cls.__qualname__}` cannot be written as code")
    program.visit(home)
    functions = [
        inner
        for function in sources.own_functions(cls)
        if isinstance(inner := sources.unwrap_wrappers(function), types.FunctionType)
    ]
    for function in functions:
        program.add_mentioned(function)
    node = copy.deepcopy(original)
    context = NameContext(home, _closure_cells(functions))
    if any(
        not isinstance(outer, ast.ClassDef) for outer in home.text.enclosing_definitions(original)
    ):
        _take_from_live(program, context, node, cls)
    _append_renamed(program, context, node, wanted.name, cls)


def _take_from_live(
    program: ProgramBuilder, context: NameContext, node: ast.ClassDef, cls: type
) -> None:
    """Replace variables of an enclosing function in a class definition by their values.

    ``node`` is the definition of ``cls``, which is inside a function; it is modified. The values
    are taken from ``cls``. Decorators are removed.
    """
    node.decorator_list = []
    if any(context.find(use) is None for base in node.bases for use in _read_names(base)):
        bases = [base for base in cls.__bases__ if base is not object]
        node.bases = [parse_expression(program.refer_to(base)) for base in bases]
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            target = statement.targets[0].id
            missing = [name for name in _read_names(statement.value) if context.find(name) is None]
            inside = bound_names(node.body)
            if target in vars(cls) and any(name not in inside for name in missing):
                statement.value = parse_expression(program.expression(vars(cls)[target], target))


def _read_names(node: ast.expr) -> set[str]:
    return {use.node.id for use in uses(node)} - set(dir(builtins))


def _set_defaults(
    program: ProgramBuilder, node: Function | ast.Lambda, function: types.FunctionType
) -> None:
    """Replace parameter defaults, except constants, by their current values.

    ``node`` is the definition of ``function``; it is modified.
    """
    values = function.__defaults__ or ()
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)][-len(values) :]
    if len(values) == len(node.args.defaults):
        node.args.defaults = [
            default
            if isinstance(default, ast.Constant)
            else parse_expression(program.expression(value, name))
            for default, value, name in zip(node.args.defaults, values, names, strict=False)
        ]
    by_name = function.__kwdefaults__ or {}
    for index, parameter in enumerate(node.args.kwonlyargs):
        default = node.args.kw_defaults[index]
        computed = default is not None and not isinstance(default, ast.Constant)
        if computed and parameter.arg in by_name:
            written = program.expression(by_name[parameter.arg], parameter.arg)
            node.args.kw_defaults[index] = parse_expression(written)


def _closure_cells(functions: Iterable[types.FunctionType]) -> dict[str, types.CellType]:
    cells: dict[str, types.CellType] = {}
    for function in functions:
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=False
        ):
            if name != "__class__":
                cells[name] = cell
    return cells


def _append_renamed(
    program: ProgramBuilder,
    context: NameContext,
    node: Function | ast.ClassDef,
    name: str,
    thing: object,
) -> None:
    keep = isinstance(thing, type) and cleaning.needs_annotations(thing)
    rewritten = rewrite_names(program, context, node, keep_annotations=keep)
    rewritten.name = name
    program.append(rewritten)


# -- writing single methods -----------------------------------------------------------------------


def method_text(program: ProgramBuilder, owner: type, name: str) -> str:
    """Return the source text of a method of ``owner``, as it is written in a class body."""
    value = vars(owner)[name]
    outer = sources.unwrap_descriptor(value)
    function = sources.unwrap_wrappers(outer if outer is not None else value)
    home = sources.home_of_class(owner)
    original = home.text.find_class(owner) if home is not None and home.text is not None else None
    nodes: list[Function] = []
    if original is not None:
        nodes = [
            node
            for node in sources.statements_of(original.body)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
        ]
    if isinstance(function, types.FunctionType):
        program.add_mentioned(function)
        line = function.__code__.co_firstlineno
        here = any(sources.first_line(node) == line for node in nodes)
        elsewhere = home is None or function.__globals__ is not home.namespace
        if not here and (elsewhere or outer is None or sources.unwrap_wrappers(outer) is not outer):
            return _method_assignment(program, name, value, outer)
    if home is None or original is None or not nodes:
        return _method_assignment(program, name, value, outer)
    program.visit(home)
    functions = [one for one in sources.own_functions(owner) if one.__closure__]
    context = NameContext(home, _closure_cells(functions))
    names = frozenset(bound_names(original.body))
    lines: list[str] = []
    for node in nodes if isinstance(value, property) else nodes[-1:]:
        copied = copy.deepcopy(node)
        defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
        if isinstance(function, types.FunctionType) and any(_read_names(one) for one in defaults):
            _set_defaults(program, copied, function)
        rewritten = rewrite_names(program, context, copied, keep_annotations=False, inside=names)
        lines.append(ast.unparse(rewritten))
    return "\n\n".join(lines)


def _method_assignment(
    program: ProgramBuilder, name: str, value: object, function: types.FunctionType | None
) -> str:
    """Return a class-body assignment for a method that was defined outside its class."""
    if function is None:
        raise UnwritableValue(f"the method `{name}` cannot be written as code")
    path = program.refer_to(function)
    kind = type(value).__name__ if function is not value else ""
    return f"{name} = {kind}({path})" if kind else f"{name} = {path}"


# -- copying module-level statements --------------------------------------------------------------


def is_better_copied(found: ResolvedName) -> bool:
    """Whether to copy the statement that assigned a variable, instead of recreating its value."""
    value = found.value
    if type(value).__module__ != "typing" and type(value).__name__ != "Library":
        return False
    return found.home is not None and found.home.text is not None


def copy_binding(program: ProgramBuilder, found: ResolvedName) -> bool:
    """Copy the module-level statement that assigned a variable; return False if impossible."""
    if found.home is None or found.home.text is None:
        return False
    nodes = [
        node
        for node in found.home.text.binding(found.name)
        if not isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    if not nodes:
        return False
    copy_statement(program, found.home, nodes[-1])
    return True


def copy_statement(
    program: ProgramBuilder, home: Home, node: ast.stmt, *, is_effect: bool = False
) -> None:
    """Copy a module-level statement of the user's module ``home`` into the generated program.

    Names in the statement are replaced by the program's names. ``is_effect``: keep the statement
    even if no other statement uses the names that it binds.
    """
    if program.mark_copied(node):
        program.visit(home)
        context = NameContext(home)
        rewritten = rewrite_names(program, context, copy.deepcopy(node), keep_annotations=False)
        if isinstance(rewritten, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            rewritten.name = program.key_name((id(home.namespace), rewritten.name))
        program.append(rewritten, is_effect=is_effect)


def add_function(program: ProgramBuilder, home: Home, node: ast.FunctionDef) -> str:
    """Add a function to the generated program; return its name in the program.

    The values of names in ``node`` come from the user's module ``home``.
    """
    program.visit(home)
    rewritten = rewrite_names(program, NameContext(home), node, keep_annotations=False)
    rewritten.name = program.fresh_name(node.name)
    program.written.add_mentioned(rewritten)
    program.append(rewritten)
    return str(rewritten.name)


# -- rewriting names ------------------------------------------------------------------------------


def rewrite_names(
    program: ProgramBuilder,
    context: NameContext,
    node: Any,
    *,
    keep_annotations: bool,
    inside: Collection[str] = (),
) -> Any:
    """Replace the names in a syntax tree by names of the generated program with the same values.

    The values come from ``context``; their definitions are added to the program. ``inside`` are
    names that the enclosing class body binds; it keeps reading them under their own names.
    """
    local, ignored = _local_imports(context.home, node)
    context = NameContext(context.home, context.cells, {**context.local, **local})
    _drop_compilers(context, node)
    lazy = context.home.text is not None and context.home.text.lazy_annotations
    node = cleaning.clean_definition(node, keep_annotations, lazy, context.knows)
    found = {
        id(use.node): use
        for use in uses(node, ignored)
        if not (use.eager and use.node.id in inside)
    }
    renaming = _NameRewriter(program, context, found, ignored)
    return ast.fix_missing_locations(renaming.visit(node))


def _local_imports(home: Home, tree: ast.AST) -> tuple[dict[str, Any], set[int]]:
    """Find imports inside functions; return the values that they bind and the ids of the import
    nodes.

    Imports of torch, of the standard library and of packages with compiled parts are left out.
    """
    local: dict[str, Any] = {}
    ignored: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = sources.imported_from(home, node)
            things = _imported_values(module, node)
        elif isinstance(node, ast.Import):
            module = node.names[0].name
            things = _imported_modules(node)
        else:
            continue
        if sources.origin_of(module) in ("torch", "standard") or things is None:
            continue
        if sources.has_compiled_parts(module.partition(".")[0]):
            continue
        local.update(things)
        ignored.add(id(node))
    return local, ignored


def _imported_values(module: str, node: ast.ImportFrom) -> dict[str, Any] | None:
    loaded = sys.modules.get(module)
    things: dict[str, Any] = {}
    for alias in node.names:
        if loaded is None or not hasattr(loaded, alias.name):
            return None
        things[alias.asname or alias.name] = getattr(loaded, alias.name)
    return things


def _imported_modules(node: ast.Import) -> dict[str, Any] | None:
    things: dict[str, Any] = {}
    for alias in node.names:
        name = alias.name if alias.asname else alias.name.partition(".")[0]
        if name not in sys.modules:
            return None
        things[alias.asname or name] = sys.modules[name]
    return things


def _drop_compilers(context: NameContext, tree: ast.AST) -> None:
    """Remove decorators such as ``torch.compile``: the generated program itself calls
    ``torch.compile``.
    """
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node.decorator_list = [
                decorator
                for decorator in node.decorator_list
                if not _is_compiler(context, decorator)
            ]


def _is_compiler(context: NameContext, decorator: ast.expr) -> bool:
    called = decorator
    if isinstance(called, ast.Call):
        value = _value_of_name(context, called.func)
        if getattr(value, "__name__", "") == "partial" and called.args:
            called = called.args[0]
        else:
            called = called.func
    value = _value_of_name(context, called)
    if value is None:
        return False
    from ...torch_internals.dynamo import optimize

    return value is torch.compile or value is optimize


def _value_of_name(context: NameContext, node: ast.expr) -> Any:
    """Return the current value of a dotted name, such as ``nn.functional.relu``; None if
    unknown.
    """
    if isinstance(node, ast.Attribute):
        value = _value_of_name(context, node.value)
        return getattr(value, node.attr, None) if isinstance(value, types.ModuleType) else None
    if isinstance(node, ast.Name):
        found = context.find(node.id)
        return found.value if found is not None else None
    return None


class _NameRewriter(ast.NodeTransformer):
    def __init__(
        self,
        program: ProgramBuilder,
        context: NameContext,
        found: dict[int, Use],
        ignored: Collection[int],
    ) -> None:
        self._program, self._context = program, context
        self._found, self._ignored = found, ignored

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._rewrite_dotted(node, node, [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        attributes: list[str] = []
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            attributes.insert(0, root.attr)
            root = root.value
        if not isinstance(root, ast.Name):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            # Keep the last attribute of an assignment target, because the statement assigns to it.
            node.value = self._rewrite_dotted(node.value, root, attributes[:-1])
            return node
        return self._rewrite_dotted(node, root, attributes)

    def _rewrite_dotted(self, node: ast.expr, root: ast.Name, attributes: list[str]) -> ast.expr:
        use = self._found.get(id(root))
        if use is None:
            return node
        key = (id(self._context.home.namespace), root.id)
        cell = self._context.cells.get(root.id)
        if not isinstance(root.ctx, ast.Load):
            if cell is not None:
                key = (id(cell), root.id)
            root.id = self._program.key_name(key, use.hidden)
            return node
        found = self._context.find(root.id)
        if found is None:
            return node
        path, covered = self._program.path(found, attributes, use.hidden)
        result = parse_expression(path)
        for attribute in attributes[covered:]:
            result = ast.Attribute(result, attribute, ast.Load())
        return result

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        space = id(self._context.home.namespace)
        names = []
        for name in node.names:
            found = self._context.find(name)
            if found is None:
                names.append(self._program.key_name((space, name)))
            else:
                names.append(self._program.path(found, (), ())[0])
        return ast.Global([name for name in names if name.isidentifier()] or ["_"])

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        """Turn ``nonlocal`` into ``global``, since the generated program makes closure variables
        global.
        """
        outer = [name for name in node.names if name in self._context.cells]
        inner = [name for name in node.names if name not in outer]
        result: list[ast.stmt] = [ast.Nonlocal(inner)] if inner else []
        found = [one for one in map(self._context.find, outer) if one is not None]
        if found:
            result.append(ast.Global([self._program.path(one, (), ())[0] for one in found]))
        return result

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        return ast.Pass() if id(node) in self._ignored else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if id(node) in self._ignored:
            return ast.Pass()
        if node.level:
            module = sources.imported_from(self._context.home, node)
            return ast.ImportFrom(module, node.names, 0)
        return node


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body
