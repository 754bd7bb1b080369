"""The names of the running torch: what each of them is, and what it says of itself."""

from __future__ import annotations

import ast
import dis
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
"""Those that the warm engine has imported anyway are looked through."""

_TENSOR = "torch.Tensor"
_BINDINGS = (
    "torch._C._VariableFunctions",
    "torch._C._nn",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._nested",
    "torch._C._sparse",
    "torch._C._special",
)
_COMPUTING = frozenset(
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
"""Where functions written in Python are mostly there to call operators."""
_LONGEST_DEFAULT = 40


@dataclass(frozen=True)
class Live:
    """A name of the running torch. ``canonical`` is the path by which its object is known."""

    path: str
    kind: NameKind
    value: Any
    canonical: str
    python: str = ""
    calls: tuple[str, ...] = ()
    summary: str = ""
    href: str = ""
    deprecated: str = ""
    doc: str = ""


def resolve(path: str) -> Any:
    """The object of a dotted path.

    Raises:
        AttributeError: there is none.
    """
    value: Any = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


def live_names(also: Iterable[str] = ()) -> dict[str, Live]:
    """Everything public below the modules, the members of a tensor, and other paths that exist."""
    bindings = _bindings()
    found = dict(_public(bindings))
    for path in also:
        if path not in found:
            owner, _, member = path.rpartition(".")
            try:
                found[path] = _raw(torch.Tensor, member) if owner == _TENSOR else resolve(path)
            except AttributeError:
                continue
    known = _Known(found, bindings)
    told = _documented_by_module()
    return {path: _live(path, value, known, told) for path, value in found.items()}


def _public(bindings: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
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
            except Exception:  # lazy ones may refuse
                continue
            own = listed is not None and member in listed
            if listed is None and isinstance(value, type):
                own = value.__module__ == "torch._C"  # torch.linalg.LinAlgError
            if own or id(value) in bindings or _belongs(name, member, value):
                yield f"{name}.{member}", value
    for member in dir(torch.Tensor):
        if not member.startswith("_"):
            yield f"{_TENSOR}.{member}", _raw(torch.Tensor, member)


def _belongs(module: str, member: str, value: Any) -> bool:
    """Whether a name that the module does not list is its own all the same."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{module}.{member}"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)):
        return module == "torch"
    if isinstance(value, (type, types.FunctionType)):
        home = str(getattr(value, "__module__", ""))
        inside = home == module or home.startswith(module + ".")
        # `torch` itself has classes from everywhere beneath it, also such as it only needs.
        return inside and (module != "torch" or not _only_needed(home, value))
    return False


def _only_needed(home: str, value: Any) -> bool:
    """A class from a part of torch that is no part of its interface, or without a word."""
    if isinstance(value, types.FunctionType):
        return False
    return not value.__doc__ or any(part.startswith("_") for part in home.split("."))


def _raw(owner: type, member: str) -> Any:
    """A member of a class as it is stored, so that properties are told from methods."""
    for base in owner.__mro__:
        if member in base.__dict__:
            return base.__dict__[member]
    return getattr(owner, member)


def _bindings() -> dict[int, str]:
    """The C functions of the binding by identity."""
    found: dict[int, str] = {}
    for name in _BINDINGS:
        try:
            owner = resolve(name)
        except AttributeError:
            continue
        for member in dir(owner):
            value = getattr(owner, member)
            if isinstance(value, types.BuiltinFunctionType):
                found.setdefault(id(value), f"{name}.{member}")
    return found


class _Known:
    """Which objects have a name, and by which they are known."""

    def __init__(self, found: Mapping[str, Any], bindings: Mapping[int, str]) -> None:
        self._bindings = bindings
        paths: dict[int, list[str]] = {}
        for path, value in found.items():
            if _has_identity(value) and not path.startswith((_TENSOR + ".", "torch._C.")):
                paths.setdefault(id(value), []).append(path)
        self._canonical = {
            number: _best(several, found[several[0]]) for number, several in paths.items()
        }

    def canonical(self, value: Any) -> str:
        """The path of an object, also that of a binding without a public name; else empty."""
        number = id(value)
        return self._canonical.get(number) or self._bindings.get(number, "")


def _has_identity(value: Any) -> bool:
    """Whether two names of this object are two names of one thing."""
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


def _best(paths: list[str], value: Any) -> str:
    if len(paths) == 1:
        return paths[0]
    own = repr(value)  # torch.float32
    if own not in paths:
        own = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    if own not in paths:
        own = min(paths, key=lambda path: (path.count("."), len(path), path))
    return own


def _live(path: str, value: Any, known: _Known, told: frozenset[str]) -> Live:
    method = path.startswith(_TENSOR + ".")
    kind = _kind(value, method)
    private = method or path.startswith("torch._C.")
    canonical = path if private else known.canonical(value) or path
    if canonical != path and kind != "module":
        return Live(path, kind, value, canonical)
    doc = _doc(value)
    function = _function(value)
    python = calls = None
    refusal = ""
    if function is not None:
        python = python_signature(function, bound=method and kind == "method")
        if path.rpartition(".")[0] in _COMPUTING:
            calls, refusal = _calls(function, known, path)
    elif kind in ("class", "exception"):
        constructor = _function(_raw(value, "__init__"))
        python = python_signature(constructor, bound=True) if constructor is not None else None
    deprecated = _marked(value) or refusal
    if not deprecated and kind in ("function", "method", "class"):
        deprecated = documentation.deprecation(path, doc)
    plain = doc if kind not in ("constant", "dtype", "layout", "memory_format") else ""
    return Live(
        path,
        kind,
        value,
        canonical,
        python or "",
        calls or (),
        documentation.summary(plain) if plain else "",
        _href(path, kind, plain, told),
        deprecated,
        plain,
    )


def _kind(value: Any, method: bool) -> NameKind:
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
        return "property" if property_ else "method" if _callable(value) else "constant"
    return "function" if callable(value) else "constant"


def _callable(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod))


def _function(value: Any) -> types.FunctionType | None:
    """The Python function behind a name, through wrappers."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    for _ in range(8):
        inner = getattr(value, "__wrapped__", None)
        if inner is None or not callable(inner):
            break
        value = inner
    return value if isinstance(value, types.FunctionType) else None


def _doc(value: Any) -> str:
    if isinstance(value, type) and "__doc__" not in value.__dict__:
        return ""
    doc = getattr(value, "__doc__", None)
    return doc if isinstance(doc, str) else ""


def _marked(value: Any) -> str:
    message = getattr(value, "__deprecated__", None)
    return documentation.first_sentence(message) if isinstance(message, str) else ""


# -- documentation ----------------------------------------------------------------------------


def _documented_by_module() -> frozenset[str]:
    """Names in ``torch`` that have a page there although others have the same object.

    ``torch.conv2d`` is documented as ``torch.nn.functional.conv2d`` alone; its docstring is
    set where its page is.
    """
    try:
        text = Path(torch.__file__).with_name("_torch_docs.py").read_text("utf-8")
    except (OSError, TypeError):
        return frozenset()
    return frozenset(re.findall(r"add_docstr(?:_all)?\(\s*(torch\.[\w.]+)", text))


def _href(path: str, kind: str, doc: str, told: frozenset[str]) -> str:
    if kind in ("dtype", "layout", "memory_format", "module"):
        return documentation.href(path, kind)
    if not doc:
        return ""
    if kind == "function" and path.count(".") == 1 and told and path not in told:
        functional = getattr(torch.nn.functional, path.partition(".")[2], None)
        if functional is getattr(torch, path.partition(".")[2]):
            return documentation.href("torch.nn.functional." + path.partition(".")[2], kind)
    return documentation.href(path, kind)


# -- Python functions -------------------------------------------------------------------------


def python_signature(function: types.FunctionType, *, bound: bool) -> str:
    """Parameters with their defaults as source; ``bound`` leaves the first one out."""
    code = function.__code__
    names = code.co_varnames
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    defaults = function.__defaults__ or ()
    given = function.__kwdefaults__ or {}
    parts: list[str] = []
    for index in range(count):
        default = index - (count - len(defaults))
        text = names[index]
        parts.append(f"{text}={_source(defaults[default])}" if default >= 0 else text)
        if index + 1 == code.co_posonlyargcount:
            parts.append("/")
    if bound and parts:
        del parts[0]
        if parts[:1] == ["/"]:
            del parts[0]
    position = count + keywords
    if code.co_flags & 0x04:
        parts.append("*" + names[position])
        position += 1
    elif keywords:
        parts.append("*")
    for name in names[count : count + keywords]:
        parts.append(f"{name}={_source(given[name])}" if name in given else name)
    if code.co_flags & 0x08:
        parts.append("**" + names[position])
    return f"({', '.join(parts)})"


def textual(python: str) -> tuple[str, ...]:
    """The parameters of a signature in Python that may be strings, going by their defaults."""
    try:
        (function,) = ast.parse(f"def f{python}: ...").body
    except (SyntaxError, ValueError):
        return ()
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(positional), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    named = {argument.arg: default for argument, default in pairs}
    return tuple(
        argument.arg
        for argument in (*positional, *given.kwonlyargs)
        if (default := named.get(argument.arg)) is None
        or (isinstance(default, ast.Constant) and isinstance(default.value, (str, type(None))))
    )


def _source(default: Any) -> str:
    if (isinstance(default, float) and default != default) or default in (_INF, -_INF):
        return f"float('{default}')"
    if isinstance(default, _PLAIN):
        text = repr(default)
        return text if len(text) <= _LONGEST_DEFAULT else "..."
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


def _calls(function: types.FunctionType, known: _Known, own: str) -> tuple[tuple[str, ...], str]:
    """The names that a function's code calls, and what it says if all it does is to refuse.

    Private functions of torch that it calls are looked into as well, but not those that they call.
    """
    found: dict[str, None] = {}
    private: dict[types.FunctionType, None] = {}
    said = _scan(function, known, own, found, private)
    for inner in private:
        _scan(inner, known, own, found, {})
    found.pop(own, None)
    return tuple(found), documentation.refusal(said)


def _scan(
    function: types.FunctionType,
    known: _Known,
    own: str,
    found: dict[str, None],
    private: dict[types.FunctionType, None],
) -> str:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    value: Any = None
    returns = False
    said = ""
    for step in dis.get_instructions(function.__code__):
        name = step.opname
        if name.startswith("RETURN_") and name != "RETURN_GENERATOR":
            returns = True
        if name == "LOAD_GLOBAL":
            value = _UPWARDS if step.argval == "super" else function.__globals__.get(step.argval)
        elif name == "LOAD_DEREF" and step.argval in cells:
            try:
                value = cells[step.argval].cell_contents
            except ValueError:  # not yet bound
                value = None
        elif name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            if value is _UPWARDS or name == "LOAD_SUPER_ATTR":
                _note_method(found, step.argval, own)
                value = None
            elif isinstance(value, types.ModuleType):
                value = getattr(value, step.argval, None)
            else:
                value = None
        elif name == "LOAD_CONST" and isinstance(step.argval, str) and "deprecated" in step.argval:
            said = said or step.argval
        elif value is not _UPWARDS:
            value = None
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            path = known.canonical(value)
            if path:
                found[path] = None
            elif isinstance(value, types.FunctionType) and _is_torchs(value):
                private[value] = None
    return "" if returns else said


def _is_torchs(function: types.FunctionType) -> bool:
    home = str(function.__globals__.get("__name__", ""))
    return home.partition(".")[0] == "torch"


_UPWARDS = object()
"""Stands for ``super()`` until the attribute that is taken from it."""


def _note_method(found: dict[str, None], member: str, own: str) -> None:
    """Above ``torch.Tensor`` is the class of its bindings."""
    if own.startswith(_TENSOR + ".") and not member.startswith("__"):
        same = own == f"{_TENSOR}.{member}"
        found[f"torch._C.TensorBase.{member}" if same else f"{_TENSOR}.{member}"] = None
