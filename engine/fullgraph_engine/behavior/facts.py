"""Values observed in a call (facts), to compare the original with the changed code.

Each fact has a path (such as ``result[0]``), a description and possibly numbers. A collector
decomposes values: containers into type, keys and items, objects into attributes, tensors into a
description, the owner of their memory, and their bytes. A value that cannot be decomposed is
``opaque``.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import torch

from ..object_state import instance_state
from ..protocol import Aspect
from ..targets import tensors
from ..targets.probes import unwrap_compiled

MAX_FACTS = 20_000
"""Maximum number of observed values (facts) that one collector collects."""
MAX_FACTS_OF_GLOBAL = 500
"""Maximum number of observed values (facts) inside one global variable."""
_MAX_DEPTH = 12
_MAX_WHOLE_BYTES = 4 << 20
"""Size in bytes up to which a tensor is stored whole; larger ones are sampled."""
_SAMPLE = 1 << 16
"""Approximate number of elements stored of a larger tensor."""
_MAX_WORDS = 2_000
"""Maximum number of characters in the description of a value; longer ones are shortened."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_HOOKS = re.compile(r"_(?:\w+_)?(?:hooks|hooks_\w+|pre_hooks)$")


@dataclass(frozen=True)
class TensorData:
    """Reference to the elements of a tensor in a file of tensor data.

    ``start`` and ``length`` are in bytes. ``digest`` covers all elements. If ``sampled``, the file
    has only evenly spaced elements of the tensor, as one dimension.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int
    digest: str
    sampled: bool = False


@dataclass(frozen=True)
class CallFact:
    """One value observed in a call, such as a result; ``words`` describe it without its numbers.

    The words must be equal for the original and the changed code. A different ``layout`` (such as
    strides) is reported, but is not a failure. ``opaque``: the value has parts that could not be
    read; two such values count as equal if ``code`` is equal.
    """

    aspect: Aspect
    path: str
    words: str
    data: Union[TensorData, None] = None
    layout: str = ""
    opaque: bool = False
    code: str = ""
    """Digest of the executed code if the value is a function; empty for other values."""


NONE_WORDS = f"{type(None).__name__} {None!r}"
"""Description of the value None."""

REQUIRES_GRAD = " that requires gradients"
"""Suffix in the description of a tensor that requires gradients."""

_ALIASING: dict[Aspect, Aspect] = {"result": "aliasing", "state": "state-aliasing"}
"""Aspect to report if a value shares memory with other values than in the original, by the aspect
of the value.
"""

StoreTensor = Callable[[torch.Tensor], Union[TensorData, None]]
"""Function that stores the bytes of a tensor and returns a reference, or None."""


def raw_bytes(tensor: torch.Tensor) -> Any:
    """Return a buffer of the elements of a contiguous CPU tensor, without a copy."""
    return (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor | None:
    """Convert a tensor to a plain contiguous CPU tensor; None if its elements cannot be read."""
    try:
        with torch.no_grad():
            plain = tensor.detach()
            if plain.is_meta:
                return None
            if plain.layout is not torch.strided:
                plain = plain.to_dense()
            if plain.is_quantized:
                plain = plain.dequantize()
            return plain.cpu().resolve_conj().resolve_neg().contiguous()
    except (RuntimeError, NotImplementedError, TypeError, AttributeError):
        return None


def tensor_digest(tensor: torch.Tensor) -> str:
    """Return a digest of the bytes of a contiguous CPU tensor."""
    return hashlib.blake2b(raw_bytes(tensor), digest_size=12).hexdigest()


def sample_elements(tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return the elements to store of a contiguous tensor, and whether they are only a sample of
    it.
    """
    if tensor.nbytes <= _MAX_WHOLE_BYTES:
        return tensor, False
    return tensor.view(-1)[:: math.ceil(tensor.numel() / _SAMPLE)].contiguous(), True


def without_addresses(text: str) -> str:
    """Return the text without memory addresses, which differ between processes."""
    return _ADDRESS.sub("0x…", text)


def shorten_words(text: str) -> str:
    """Shorten a long text to its beginning and a digest of the whole text."""
    if len(text) <= _MAX_WORDS:
        return text
    return f"{text[:200]}… {hashlib.blake2b(text.encode('utf-8', 'replace')).hexdigest()[:24]}"


@dataclass
class MemoryOwners:
    """A register of the memory and mutable objects seen in a call, to detect values that share
    them.

    It maps each storage and object to the path (such as ``result[0]``) at which it was first found.
    """

    _storages: dict[int, tuple[str, int]] = field(default_factory=dict)
    _objects: dict[int, str] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)

    def describe_sharing(self, tensor: torch.Tensor, path: str) -> str:
        """Describe the earlier value with which a tensor shares memory; "" if it shares none.

        ``path`` (such as ``result[1]``) is where the tensor was found.
        """
        known = self._objects.get(id(tensor))
        if known is not None:
            return "" if known == path else f"the same tensor as {known}"
        self._objects[id(tensor)] = path
        self._kept.append(tensor)
        try:
            start, here = tensor.untyped_storage().data_ptr(), tensor.data_ptr()
        except (RuntimeError, NotImplementedError):
            return ""
        if not start:
            return ""
        if start not in self._storages:
            self._storages[start] = (path, here)
            return ""
        owner, at = self._storages[start]
        return f"that of {owner}{_signed_offset(here - at)}"

    def earlier_path(self, value: Any, path: str) -> str:
        """Return the path at which an object was found before. If the object is new, register it
        with ``path`` and return "".
        """
        known = self._objects.get(id(value))
        if known is not None:
            return known
        self._objects[id(value)] = path
        self._kept.append(value)
        return ""


def _signed_offset(offset: int) -> str:
    return f" {'+' if offset > 0 else '-'} {abs(offset)} bytes" if offset else ""


class FactCollector:
    """Collects a value as facts, which can be compared between two processes: an entry for each
    tensor, item and attribute in it.

    All facts get the same kind, such as "result". ``memory`` registers tensors that share memory;
    pass the same object to several collectors to compare their values. ``home`` is the module name
    of the user's file, whose functions are compared by their code.
    """

    def __init__(
        self, aspect: Aspect, keep: StoreTensor, memory: MemoryOwners, home: str = ""
    ) -> None:
        self.aspect, self._keep, self._memory, self._home = aspect, keep, memory, home
        self.facts: list[CallFact] = []
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self._most = MAX_FACTS
        self._inside: set[int] = set()

    @property
    def is_full(self) -> bool:
        return len(self.facts) >= self._most

    def collect_global(self, path: str, value: Any) -> None:
        """Collect the value of a global variable, up to ``MAX_FACTS_OF_GLOBAL`` facts. ``path``
        names it.
        """
        self._most = min(len(self.facts) + MAX_FACTS_OF_GLOBAL, MAX_FACTS)
        self.collect(path, value)
        self._most = MAX_FACTS

    def add_fact(self, path: str, words: str, **more: Any) -> None:
        if not self.is_full:
            self.facts.append(
                CallFact(self.aspect, path, shorten_words(without_addresses(words)), **more)
            )

    def collect(self, path: str, value: Any, depth: int = 0) -> None:
        """Collect a value and everything in it.

        ``path`` (such as ``result[0]``) names the value; ``depth`` is the number of containers
        around it.
        """
        if self.is_full:
            return
        if isinstance(value, torch.Tensor):
            self.collect_tensor(path, value)
        elif value is None or type(value) in (bool, int, str, bytes, type(...)):
            self.add_fact(path, f"{type(value).__name__} {value!r}")
        elif type(value) in (float, complex):
            self.collect_number(path, value)
        elif isinstance(
            value, (torch.dtype, torch.device, torch.layout, torch.memory_format, range, slice)
        ):
            self.add_fact(path, f"{_type_name(value)} {value!r}")
        elif isinstance(value, (type, types.ModuleType)):
            self.add_fact(
                path, f"{_type_name(value)} {getattr(value, '__qualname__', value.__name__)}"
            )
        elif isinstance(value, torch.Generator):
            self.add_fact(path, f"torch.Generator {tensor_digest(value.get_state())}")
        elif depth > _MAX_DEPTH:
            self.add_fact(path, f"{_type_name(value)} …", opaque=True)
        elif not self._collect_array(path, value):
            self._collect_object(path, value, depth)

    def collect_number(self, path: str, value: complex) -> None:
        """Collect a Python float or complex number, to be compared with a tolerance like a
        tensor.
        """
        kind = torch.complex128 if isinstance(value, complex) else torch.float64
        self.add_fact(path, type(value).__name__, data=self._keep(torch.tensor(value, dtype=kind)))

    def collect_tensor(self, path: str, tensor: torch.Tensor) -> None:
        self.tensors.append((path, tensor))
        kind = type(tensor)
        words = tensors.describe_inputs((tensor,), {})
        if kind is not torch.Tensor:
            words = f"{_type_name(tensor)} {words}"
        if tensor.requires_grad:
            words += REQUIRES_GRAD
        if tensor.layout is not torch.strided:
            words += f", {tensor.layout}"
        sharing = self._memory.describe_sharing(tensor, path)
        plain = plain_tensor(tensor)
        layout = str(tensor.stride()) if tensor.layout is torch.strided else ""
        data = self._keep(plain) if plain is not None else None
        self.add_fact(path, words, data=data, layout=layout, opaque=plain is None)
        # Autograd decides which gradients share memory.
        if sharing and self.aspect != "gradient":
            self.facts.append(
                CallFact(
                    _ALIASING.get(self.aspect, self.aspect),
                    f"memory of {path}",
                    sharing,
                )
            )
        if tensor.is_leaf and tensor.grad is not None:
            self.collect_tensor(f"{path}.grad", tensor.grad)

    def _collect_array(self, path: str, value: Any) -> bool:
        """Collect a NumPy array or scalar; return False for other values."""
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
            return False
        words = f"{_type_name(value)} {value.dtype} {value.shape}"
        try:
            made = torch.from_numpy(numpy.array(value))
            data = self._keep(made.contiguous())
        except TypeError:
            self.add_fact(path, f"{words} {value!r}")
            return True
        self.add_fact(path, words, data=data)
        return True

    def _collect_object(self, path: str, value: Any, depth: int) -> None:
        immutable = type(value) in (tuple, frozenset, torch.Size)
        if not immutable:
            before = self._memory.earlier_path(value, path)
            if before and before != path:
                self.add_fact(path, f"the same {_type_name(value)} as {before}")
                return
        if id(value) in self._inside:
            return
        self._inside.add(id(value))
        try:
            self._decompose(path, value, depth + 1)
        except Exception as error:  # raised by the object's own code
            self.add_fact(
                path, f"{_type_name(value)} that raises {type(error).__name__}", opaque=True
            )
        finally:
            self._inside.discard(id(value))

    def _decompose(self, path: str, value: Any, depth: int) -> None:
        kind = _type_name(value)
        if isinstance(value, Mapping):
            self.add_fact(path, f"{kind} with {[_describe_key(key) for key in value]}")
            for key, item in list(value.items()):
                self.collect(f"{path}[{_describe_key(key)}]", item, depth)
            if type(value) is not dict and isinstance(value, dict):
                self.collect_attributes(path, value, depth)
        elif isinstance(value, (list, tuple)) or kind.startswith("torch.return_types."):
            self.add_fact(path, f"{kind} of {len(value)}")
            for number, item in enumerate(list(value)):
                self.collect(f"{path}[{number}]", item, depth)
        elif isinstance(value, (set, frozenset)):
            self.add_fact(path, f"{kind} {sorted(map(_describe_key, value))}")
        elif isinstance(value, torch.nn.Module):
            # Ignore whether an argument is compiled, because this does not affect the code's
            # behavior.
            self.collect_module(
                path, unwrap_compiled(value) if self.aspect == "input" else value, depth
            )
        elif isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            self.collect_function(path, value, depth)
        elif type(value) is functools.partial and self.aspect == "result":
            self.add_fact(path, kind)
            for name, item in (("func", value.func), ("args", value.args), ("kw", value.keywords)):
                self.collect(f"{path}.{name}", item, depth)
        elif type(value).__module__.partition(".")[0] in _LIBRARIES:
            self.add_fact(path, kind, opaque=True)
        elif hasattr(value, "__dict__") or not _is_closed(value):
            self.add_fact(path, f"a {kind}", opaque=_is_closed(value))
            self.collect_attributes(path, value, depth)
        else:
            self.add_fact(path, f"{kind} {value!r}" if _has_repr(value) else kind, opaque=True)

    def collect_attributes(self, path: str, value: Any, depth: int) -> None:
        """Collect the values of an object's attributes; see :meth:`collect` for the parameters."""
        for name, item in instance_state(value).items():
            self.collect(f"{path}.{name}", item, depth)

    def collect_function(self, path: str, function: Any, depth: int) -> None:
        """Collect a function or method; see :meth:`collect` for ``path`` and ``depth``.

        If the function is the result of a call, its facts include a digest of its code, its object,
        its default values and its closure.
        """
        words = f"function {getattr(function, '__qualname__', '')}"
        if self.aspect != "result":
            self.add_fact(path, words, opaque=True)
            return
        plain = getattr(function, "__func__", function)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, types.ModuleType):
            owner = None
        self.add_fact(path, words, opaque=True, code=code_digest(plain, owner, self._home))
        if owner is not None:
            self.collect(f"{path}.__self__", owner, depth)
        if isinstance(plain, types.FunctionType):
            for name, item in (*default_values(plain).items(), *function_state(plain)):
                self.collect(f"{path}.{name}", item, depth)

    def collect_module(self, path: str, module: torch.nn.Module, depth: int) -> None:
        """Collect the parameters, buffers, submodules and plain attributes of a module; see
        :meth:`collect` for ``path`` and ``depth``.

        A compiled module counts as its original, as ``torch.compile`` may have other options.
        """
        module = unwrap_compiled(module)
        self.add_fact(path, f"a {_type_name(module)} with {list(vars(module).get('_modules', ()))}")
        for name, item in list(vars(module).items()):
            if name in ("_parameters", "_buffers"):
                for inner, tensor in item.items():
                    self.collect(f"{path}.{inner}", tensor, depth)
            elif name == "_modules":
                for inner, sub in item.items():
                    self.collect(f"{path}.{inner}", sub, 1)
            elif _HOOKS.match(name):
                if item:
                    self.add_fact(f"{path}.{name}", f"{len(item)} hooks")
            elif name not in _SKIPPED_ATTRIBUTES:
                self.collect(f"{path}.{name}", item, depth)


_LIBRARIES = sys.stdlib_module_names - {"types", "collections", "__main__"}
"""Names of modules whose objects are not decomposed. For example, a logger refers to all other
loggers.
"""
_SKIPPED_ATTRIBUTES = frozenset(
    {"_is_full_backward_hook", "call_super_init", "_compiled_call_impl"}
)


def default_values(function: types.FunctionType) -> dict[str, Any]:
    """Return the defaults of a function's parameters by name."""
    code, defaults = function.__code__, function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(positional, defaults, strict=False)), **(function.__kwdefaults__ or {})}


def function_state(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the attributes and closure variables of a function, with their names.

    Names of closure variables begin with ``CLOSURE``.
    """
    yield from vars(function).items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"{CLOSURE}{name}", cell.cell_contents
        except ValueError:  # the variable is not assigned yet
            yield f"{CLOSURE}{name}", "not bound"


def code_digest(function: Any, owner: Any, home: str) -> str:
    """Return a digest of the code that a function executes; line numbers do not affect it.

    ``owner`` is the object of a method. The digest covers the code of the function and of the class
    of ``owner``. It also covers the functions, classes and constants of the module ``home`` that
    this code names. The digest is empty if the code names any other kind of object, whose value the
    file may have changed.
    """
    if not isinstance(function, _CODE_TYPES):
        return ""
    executed = _CodeDescription(home)
    executed.add_value("", function)
    executed.add_value("", type(owner))
    if executed.unknown:
        return ""
    text = "\n".join(executed.parts)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


CLOSURE = "<closure>."
"""Prefix of the names that :func:`function_state` gives to closure variables."""

_CODE_TYPES = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


class _CodeDescription:
    """Describes everything that affects what a function does, as text from which a digest is
    made.
    """

    def __init__(self, home: str) -> None:
        self.parts: list[str] = []
        self.unknown = False
        self._home = home
        self._seen: set[int] = set()

    def add_value(self, name: str, value: Any) -> None:
        """Add a value to the description of a function. ``name`` is the name by which the
        function's code refers to the value.
        """
        if id(value) in self._seen:
            self.parts.append(name)
            return
        home = getattr(value, "__module__", "")
        if isinstance(value, types.FunctionType) and home == self._home:
            self._seen.add(id(value))
            self.parts.append(f"{name} {value.__qualname__}")
            self._add_code(value.__code__, value.__globals__)
        elif isinstance(value, type) and home == self._home:
            self._seen.add(id(value))
            self.parts.append(f"{name} {value.__qualname__}")
            for kind in value.__mro__[:-1]:
                self._add_class(kind)
        elif isinstance(value, _CODE_TYPES):
            line = getattr(getattr(value, "__code__", None), "co_firstlineno", "")
            path = f"{home}.{getattr(value, '__qualname__', value.__name__)}"
            self.parts.append(f"{name} {_type_name(value)} {path} {line}")
        elif value is None or type(value) in (bool, int, float, complex, str, bytes):
            self.parts.append(f"{name} {type(value).__name__} {value!r}")
        else:
            self.unknown = True

    def _add_class(self, kind: type) -> None:
        if kind.__module__ != self._home:
            self.parts.append(f"{kind.__module__}.{kind.__qualname__}")
            return
        for name, item in vars(kind).items():
            if isinstance(item, property):
                for part in (item.fget, item.fset, item.fdel):
                    self.add_value(name, part)
            elif isinstance(item, (staticmethod, classmethod)):
                self.add_value(f"{name} {type(item).__name__}", item.__func__)
            elif isinstance(item, types.FunctionType) or not name.startswith("__"):
                self.add_value(name, item)

    def _add_code(self, code: types.CodeType, namespace: Mapping[str, Any]) -> None:
        counts = (code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.parts.append(f"{counts} {names} {code.co_code.hex()}")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant, namespace)
            elif isinstance(constant, frozenset):
                # The order of a frozenset differs between processes.
                self.parts.append(f"frozenset {sorted(map(repr, constant))}")
            else:
                self.parts.append(f"{type(constant).__name__} {constant!r}")
        for name in code.co_names:
            if name in namespace:
                self.add_value(name, namespace[name])


def _type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    return (
        kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
    )


def _describe_key(key: Any) -> str:
    """Describe a dictionary key or an element of a set, as part of a path."""
    if isinstance(key, (str, int, float, bool, bytes, type(None), tuple)):
        return without_addresses(repr(key))
    return without_addresses(f"{_type_name(key)} {key!r}"[:80])


def _is_closed(value: Any) -> bool:
    """Whether an object may have state that Python code cannot read, as instances of classes
    written in C do.
    """
    return not any(
        "__dict__" in vars(kind) or "__slots__" in vars(kind) for kind in type(value).__mro__[:-1]
    )


def _has_repr(value: Any) -> bool:
    return "__repr__" in {name for kind in type(value).__mro__[:-1] for name in vars(kind)}
