"""Collect the public names of the imported torch, with their kinds, signatures and
documentation."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..protocol.operators import NameKind
from . import documentation

MODULES = (
    "torch",
    "torch.amp",
    "torch.autograd",
    "torch.autograd.functional",
    "torch.autograd.graph",
    "torch.compiler",
    "torch.cuda",
    "torch.distributions",
    "torch.export",
    "torch.fft",
    "torch.func",
    "torch.library",
    "torch.linalg",
    "torch.masked",
    "torch.nested",
    "torch.nn",
    "torch.nn.attention",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.random",
    "torch.return_types",
    "torch.signal.windows",
    "torch.sparse",
    "torch.special",
    "torch.testing",
    "torch.utils.checkpoint",
    "torch.utils.data",
)
"""Modules whose members the operator index lists, if the engine has already imported them."""

_TENSOR = "torch.Tensor"
_BINDING_HOLDERS = (
    "torch._C._VariableFunctions",
    "torch._C._nn",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._nested",
    "torch._C._sparse",
    "torch._C._special",
)
_COMPUTING_MODULES = frozenset(
    {
        "torch",
        "torch.Tensor",
        "torch.fft",
        "torch.linalg",
        "torch.masked",
        "torch.nested",
        "torch.nn.functional",
        "torch.nn.init",
        "torch.sparse",
        "torch.special",
    }
)
"""Modules and classes whose Python functions mainly call operators, so the index lists these
calls."""
_MAX_DEFAULT = 40
"""Maximum length in characters of a displayed default value."""


@dataclass(frozen=True)
class LiveName:
    """A name of the imported torch and the object that it refers to."""

    path: str
    kind: NameKind
    value: Any
    canonical: str
    """Preferred dotted path of the object, such as ``torch.add``; it differs from ``path`` for an
    alias.
    """
    python: str = ""
    """Source of the parameters, for functions and constructors written in Python; otherwise
    empty."""
    calls: tuple[str, ...] = ()
    """Paths of the torch functions that the code of the function calls."""
    summary: str = ""
    """First sentence of the documentation."""
    href: str = ""
    """URL of the documentation page."""
    deprecated: str = ""
    """Sentence that says that the name is deprecated; empty if it is not."""
    doc: str = ""
    """Docstring of the object."""


def resolve_path(path: str) -> Any:
    """Return the object of a dotted path that begins with ``torch``.

    Raises:
        AttributeError: the path does not exist.
    """
    value: Any = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


def collect_live_names(extra_paths: Iterable[str] = ()) -> dict[str, LiveName]:
    """Describe all public members of torch's modules and of ``torch.Tensor``, by path.

    Also describes the existing paths among ``extra_paths``.
    """
    bindings = _binding_paths()
    found = dict(_public_objects(bindings))
    for path in extra_paths:
        if path not in found:
            owner, _, member = path.rpartition(".")
            try:
                found[path] = (
                    _stored_member(torch.Tensor, member) if owner == _TENSOR else resolve_path(path)
                )
            except AttributeError:
                continue
    canonical_paths = _CanonicalPaths(found, bindings)
    documented = _documented_torch_paths()
    return {
        path: _describe_name(path, value, canonical_paths, documented)
        for path, value in found.items()
    }


def _public_objects(bindings: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    for name in MODULES:
        module = sys.modules.get(name)
        if module is None:
            continue
        if name != "torch":
            yield name, module
        listed = getattr(module, "__all__", None)
        for member in dict.fromkeys((*(listed or ()), *vars(module))):
            if member.startswith("_"):
                continue
            try:
                value = getattr(module, member)
            except Exception:  # lazy attributes may raise
                continue
            is_public = listed is not None and member in listed
            if listed is None and isinstance(value, type):
                # Classes of torch._C, such as torch.linalg.LinAlgError, are public under this path.
                is_public = value.__module__ == "torch._C"
            if is_public or id(value) in bindings or _belongs_to_module(name, member, value):
                yield f"{name}.{member}", value
    for member in dir(torch.Tensor):
        if not member.startswith("_"):
            yield f"{_TENSOR}.{member}", _stored_member(torch.Tensor, member)


def _belongs_to_module(module: str, member: str, value: Any) -> bool:
    """Whether a member of a module belongs to its public interface, although ``__all__`` lacks
    it.
    """
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{module}.{member}"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)):
        return module == "torch"
    if isinstance(value, (type, types.FunctionType)):
        home = str(getattr(value, "__module__", ""))
        inside = home == module or home.startswith(module + ".")
        # `torch` also imports classes from its submodules for its own use.
        return inside and (module != "torch" or not _is_internal_class(home, value))
    return False


def _is_internal_class(home: str, value: Any) -> bool:
    """Whether a class is from a private module of torch or lacks a docstring."""
    if isinstance(value, types.FunctionType):
        return False
    return not value.__doc__ or any(part.startswith("_") for part in home.split("."))


def _stored_member(owner: type, member: str) -> Any:
    """Return a member of a class from its ``__dict__`` or the ``__dict__`` of a base, without
    evaluating properties.
    """
    for base in owner.__mro__:
        if member in base.__dict__:
            return base.__dict__[member]
    return getattr(owner, member)


def _binding_paths() -> dict[int, str]:
    """Map the ``id`` of each C++ function of torch to its path, such as
    ``torch._C._nn.gelu``."""
    found: dict[int, str] = {}
    for name in _BINDING_HOLDERS:
        try:
            owner = resolve_path(name)
        except AttributeError:
            continue
        for member in dir(owner):
            value = getattr(owner, member)
            if isinstance(value, types.BuiltinFunctionType):
                found.setdefault(id(value), f"{name}.{member}")
    return found


class _CanonicalPaths:
    """Chooses the preferred path of each object of torch, if several paths refer to the object.

    ``found`` are objects by path, ``bindings`` paths of C++ functions by ``id``.
    """

    def __init__(self, found: Mapping[str, Any], bindings: Mapping[int, str]) -> None:
        self._bindings = bindings
        paths: dict[int, list[str]] = {}
        for path, value in found.items():
            if _has_identity(value) and not path.startswith((_TENSOR + ".", "torch._C.")):
                paths.setdefault(id(value), []).append(path)
        self._canonical = {
            number: _choose_canonical(paths_of_object, found[paths_of_object[0]])
            for number, paths_of_object in paths.items()
        }

    def path_of(self, value: Any) -> str:
        """Return the preferred public path of an object, or else its path as a C++ binding.

        The result is empty if the object has neither path.
        """
        number = id(value)
        return self._canonical.get(number) or self._bindings.get(number, "")


def _has_identity(value: Any) -> bool:
    """Whether two names with this value are aliases of one object.

    False for values such as numbers and strings, which several unrelated names may have.
    """
    return isinstance(
        value,
        (
            type,
            types.ModuleType,
            types.FunctionType,
            types.BuiltinFunctionType,
            torch.dtype,
            torch.layout,
            torch.memory_format,
        ),
    )


def _choose_canonical(paths: list[str], value: Any) -> str:
    if len(paths) == 1:
        return paths[0]
    preferred = repr(value)  # the repr is a path, such as torch.float32
    if preferred not in paths:
        preferred = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    if preferred not in paths:
        preferred = min(paths, key=lambda path: (path.count("."), len(path), path))
    return preferred


def _describe_name(
    path: str, value: Any, canonical_paths: _CanonicalPaths, documented: frozenset[str]
) -> LiveName:
    method = path.startswith(_TENSOR + ".")
    kind = _kind_of(value, method)
    private = method or path.startswith("torch._C.")
    canonical = path if private else canonical_paths.path_of(value) or path
    if canonical != path and kind != "module":
        return LiveName(path, kind, value, canonical)
    doc = _docstring_of(value)
    function = _unwrap_function(value)
    python = calls = None
    refusal = ""
    if function is not None:
        python = python_signature(function, bound=method and kind == "method")
        if path.rpartition(".")[0] in _COMPUTING_MODULES:
            calls, refusal = _called_names(function, canonical_paths, path)
    elif kind in ("class", "exception"):
        constructor = _unwrap_function(_stored_member(value, "__init__"))
        python = python_signature(constructor, bound=True) if constructor is not None else None
    deprecated = _deprecation_mark(value) or refusal
    if not deprecated and kind in ("function", "method", "class"):
        deprecated = documentation.deprecation_sentence(path, doc)
    plain = doc if kind not in ("constant", "dtype", "layout", "memory_format") else ""
    return LiveName(
        path,
        kind,
        value,
        canonical,
        python or "",
        calls or (),
        documentation.summarize_docstring(plain) if plain else "",
        _documentation_url(path, kind, plain, documented),
        deprecated,
        plain,
    )


def _kind_of(value: Any, method: bool) -> NameKind:
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "class"
    if isinstance(value, torch.dtype):
        return "dtype"
    if isinstance(value, torch.layout):
        return "layout"
    if isinstance(value, torch.memory_format):
        return "memory_format"
    if method:
        property_ = isinstance(value, (property, types.GetSetDescriptorType))
        return "property" if property_ else "method" if _is_callable(value) else "constant"
    return "function" if callable(value) else "constant"


def _is_callable(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod))


def _unwrap_function(value: Any) -> types.FunctionType | None:
    """Return the Python function in a static method, class method or decorated function.

    Follows ``__wrapped__``. Returns None if the value does not contain a Python function.
    """
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    for _ in range(8):
        inner = getattr(value, "__wrapped__", None)
        if inner is None or not callable(inner):
            break
        value = inner
    return value if isinstance(value, types.FunctionType) else None


def _docstring_of(value: Any) -> str:
    if isinstance(value, type) and "__doc__" not in value.__dict__:
        return ""
    doc = getattr(value, "__doc__", None)
    return doc if isinstance(doc, str) else ""


def _deprecation_mark(value: Any) -> str:
    message = getattr(value, "__deprecated__", None)
    return documentation.first_sentence(message) if isinstance(message, str) else ""


# -- documentation ----------------------------------------------------------------------------


def _documented_torch_paths() -> frozenset[str]:
    """Return the ``torch`` paths that have their own documentation page.

    ``torch.conv2d``, for example, is only documented as ``torch.nn.functional.conv2d``. A path has
    its own page if torch/_torch_docs.py sets its docstring.
    """
    try:
        text = Path(torch.__file__).with_name("_torch_docs.py").read_text("utf-8")
    except (OSError, TypeError):
        return frozenset()
    return frozenset(re.findall(r"add_docstr(?:_all)?\(\s*(torch\.[\w.]+)", text))


def _documentation_url(path: str, kind: str, doc: str, documented: frozenset[str]) -> str:
    if kind in ("dtype", "layout", "memory_format", "module"):
        return documentation.documentation_url(path, kind)
    if not doc:
        return ""
    if kind == "function" and path.count(".") == 1 and documented and path not in documented:
        functional = getattr(torch.nn.functional, path.partition(".")[2], None)
        if functional is getattr(torch, path.partition(".")[2]):
            return documentation.documentation_url(
                "torch.nn.functional." + path.partition(".")[2], kind
            )
    return documentation.documentation_url(path, kind)


# -- Python functions -------------------------------------------------------------------------


def python_signature(function: types.FunctionType, *, bound: bool) -> str:
    """Return the source of a function's parameters with their defaults, for example ``(x, dim=1)``.

    ``bound`` omits the first parameter, which is ``self`` or ``cls``.
    """
    signature = inspect.signature(function, follow_wrapped=False)
    parameters = [
        one.replace(
            annotation=one.empty,
            default=one.empty if one.default is one.empty else _DefaultSource(one.default),
        )
        for one in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters[int(bound) :]))


class _DefaultSource:
    """A parameter's default value in a signature to display; its ``repr`` is the source code of the
    default.
    """

    def __init__(self, default: Any) -> None:
        self._default = default

    def __repr__(self) -> str:
        return _default_source(self._default)


def string_parameters(python: str) -> tuple[str, ...]:
    """Return the parameters of a signature that may accept strings, judging by their defaults.

    ``python`` is the source of the parameters. A parameter may accept strings if its default is
    missing, None or a string.
    """
    try:
        (function,) = ast.parse(f"def f{python}: ...").body
    except (SyntaxError, ValueError):
        return ()
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    named = {argument.arg: default for argument, default in pairs}
    return tuple(
        argument.arg
        for argument in (*positional, *arguments.kwonlyargs)
        if (default := named.get(argument.arg)) is None
        or (isinstance(default, ast.Constant) and isinstance(default.value, (str, type(None))))
    )


def _default_source(default: Any) -> str:
    if (isinstance(default, float) and default != default) or default in (_INF, -_INF):
        return f"float('{default}')"
    if isinstance(default, _PLAIN):
        text = repr(default)
        return text if len(text) <= _MAX_DEFAULT else "..."
    return "..."


_INF = float("inf")
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    tuple,
    torch.dtype,
    torch.layout,
    torch.memory_format,
)


def _called_names(
    function: types.FunctionType, canonical_paths: _CanonicalPaths, own_path: str
) -> tuple[tuple[str, ...], str]:
    """Return the paths of the torch functions that a function calls, and its removal message.

    The message is empty unless the function only raises an error that says that it was removed.
    Calls in private functions of torch that the function calls directly are included. ``own_path``
    is the function's own path.
    """
    found: dict[str, None] = {}
    private: dict[types.FunctionType, None] = {}
    message = _scan_calls(function, canonical_paths, own_path, found, private)
    for inner in private:
        _scan_calls(inner, canonical_paths, own_path, found, {})
    found.pop(own_path, None)
    return tuple(found), documentation.removal_notice(message)


def _scan_calls(
    function: types.FunctionType,
    canonical_paths: _CanonicalPaths,
    own_path: str,
    found: dict[str, None],
    private: dict[types.FunctionType, None],
) -> str:
    """Collect the torch functions that the bytecode of a function loads.

    Adds paths of public names to ``found``, and functions of torch without a path to ``private``.
    Returns the deprecation message of a function that always raises; otherwise an empty string.
    ``own_path`` is the function's own path.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    value: Any = None
    returns = False
    message = ""
    for step in dis.get_instructions(function.__code__):
        name = step.opname
        if name.startswith("RETURN_") and name != "RETURN_GENERATOR":
            returns = True
        if name == "LOAD_GLOBAL":
            value = _SUPER if step.argval == "super" else function.__globals__.get(step.argval)
        elif name == "LOAD_DEREF" and step.argval in cells:
            try:
                value = cells[step.argval].cell_contents
            except ValueError:  # the cell is empty
                value = None
        elif name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            if value is _SUPER or name == "LOAD_SUPER_ATTR":
                _record_super_call(found, step.argval, own_path)
                value = None
            elif isinstance(value, types.ModuleType):
                value = getattr(value, step.argval, None)
            else:
                value = None
        elif name == "LOAD_CONST" and isinstance(step.argval, str) and "deprecated" in step.argval:
            message = message or step.argval
        elif value is not _SUPER:
            value = None
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            path = canonical_paths.path_of(value)
            if path:
                found[path] = None
            elif isinstance(value, types.FunctionType) and _is_defined_in_torch(value):
                private[value] = None
    return "" if returns else message


def _is_defined_in_torch(function: types.FunctionType) -> bool:
    home = str(function.__globals__.get("__name__", ""))
    return home.partition(".")[0] == "torch"


_SUPER = object()
"""Marker, while bytecode is scanned, for the object that ``super()`` returns."""


def _record_super_call(found: dict[str, None], member: str, own_path: str) -> None:
    """Add the function that ``super().member`` calls to ``found``, if the calling method is of
    ``torch.Tensor``.

    ``own_path`` is the path of the calling method. The parent class of ``torch.Tensor`` is
    ``torch._C.TensorBase``, which has the C++ bindings.
    """
    if own_path.startswith(_TENSOR + ".") and not member.startswith("__"):
        same = own_path == f"{_TENSOR}.{member}"
        found[f"torch._C.TensorBase.{member}" if same else f"{_TENSOR}.{member}"] = None
