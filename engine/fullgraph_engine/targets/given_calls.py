"""Digests of the inputs of calls: calls with equal digests have equal traces, so that the second
need not be traced.

A digest covers the metadata of fake tensors, the contents of real tensors, the attributes of
objects, and the names of the file's classes and functions. Inputs with unreadable or too large
state do not get a digest.
"""

from __future__ import annotations

import collections
import ctypes
import enum
import functools
import hashlib
import itertools
import types
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ..object_state import closure_contents, instance_state
from ..protocol.given_calls import GivenCall
from ..torch_internals.fake_tensors import FakeTensor

if TYPE_CHECKING:
    from .enclosing import EnclosingSnapshot

_MOST = 50_000
"""Maximum number of values in the inputs of a call that gets a digest."""
_MOST_BYTES = 32 << 20
"""Maximum total size in bytes of real tensors in the inputs of a call that gets a digest."""
_MOST_CONSTANT = 64
"""Maximum number of elements of a fake tensor with known values that a digest includes."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range)
_NAMED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_HEAP_TYPE = 1 << 9
"""Flag of ``type.__flags__`` for classes made by a ``class`` statement."""


class _Unclear(Exception):
    """Raised for a value with state that cannot be read, so that its call gets no digest."""


def digest_snapshot(snapshot: EnclosingSnapshot, namespace: dict[str, Any]) -> GivenCall | None:
    """Return a digest of the arguments of the call at which a forked copy of the process stopped.

    None if some of them are unreadable.
    """
    oracle, call = snapshot.oracle, snapshot.call
    walk = _DigestWalk(namespace)
    try:
        walk.add((call.function, call.args, call.kwargs, call.init, call.is_doubtful))
        walk.add(call.context.text)
        if oracle is not None:
            walk.add(
                (oracle.choice_count, oracle.bool_choices, bytes(oracle.generator_state.tolist()))
            )
        state = snapshot.random_state
        walk.add((bytes(state.torch.tolist()), repr(state.python), repr(state.numpy)))
        walk.add_globals()
    except _Unclear:
        return None
    return GivenCall(walk.digest(), tuple(sorted(walk.definitions)), real=oracle is None)


class _DigestWalk:
    """A traversal that computes a digest of a value and everything that it refers to.

    ``namespace`` has the file's globals.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        import torch

        self._torch = torch
        self._namespace = namespace
        self._path = str(namespace.get("__file__", ""))
        self._module = namespace.get("__name__")
        self._hash = hashlib.blake2b(digest_size=16)
        self._count = self._bytes = 0
        self._seen: dict[Hashable, int] = {}
        self._kept: list[Any] = []
        """Objects kept alive so that their ``id`` stays unique."""
        self.definitions: set[str] = set()

    def digest(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any) -> None:
        """Add a value, and everything that it refers to, to the digest.

        Raises:
            _Unclear: the value has a state that cannot be read, or is too large.
        """
        left = [value]
        while left:
            one = left.pop()
            left += reversed(self._describe_value(one))

    def add_globals(self) -> None:
        """Add the numbers, strings and similar simple globals of the file to the digest, because
        executed code may have changed them."""
        for name, value in self._namespace.items():
            if name.startswith("__") or isinstance(value, (types.ModuleType, types.FunctionType)):
                continue
            self._update_digest("global", name, type(value).__qualname__)
            if isinstance(value, (*_PLAIN, dict, list, tuple, set)):
                try:
                    self.add(value)
                except RecursionError:
                    raise _Unclear from None

    def _update_digest(self, *words: object) -> None:
        self._count += 1
        if self._count > _MOST:
            raise _Unclear
        self._hash.update(repr(words).encode(errors="surrogatepass"))

    def _describe_value(self, value: Any) -> list[Any]:
        """Add a value to the digest, without the values that it contains; return these inner
        values."""
        kind = type(value)
        if kind in _PLAIN:
            self._update_digest(kind.__name__, value)
            return []
        number = self._seen.setdefault(id(value), len(self._seen))
        if number < len(self._kept):
            self._update_digest("again", number)
            return []
        self._kept.append(value)
        torch = self._torch
        if isinstance(value, torch.Tensor):
            return self._describe_tensor(value)
        if isinstance(value, type):
            self._add_class(value)
            return []
        if isinstance(value, types.FunctionType):
            return self._describe_function(value)
        if isinstance(value, types.MethodType):
            self._update_digest("method")
            return [value.__func__, value.__self__]
        if isinstance(value, functools.partial):
            self._update_digest("partial")
            return [value.func, value.args, value.keywords, vars(value)]
        if isinstance(value, types.ModuleType):
            self._update_digest("module", value.__name__)
            return []
        if isinstance(value, _NAMED):
            owner = getattr(value, "__self__", None)
            self._update_digest("built in", getattr(value, "__module__", ""), value.__qualname__)
            return [] if owner is None or isinstance(owner, types.ModuleType) else [owner]
        if isinstance(value, enum.Enum):
            self._add_class(kind)
            self._update_digest("member", value.name)
            return []
        if isinstance(value, torch.Size):
            self._update_digest("size", tuple(map(_to_int, value)))
            return []
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            self._update_digest("torch", str(value))
            return []
        if kind.__module__ == "torch._ops":
            self._update_digest("operator", str(value))
            return []
        return self._describe_object(value)

    def _describe_tensor(self, value: Any) -> list[Any]:
        torch = self._torch
        if value.layout is not torch.strided or value._backward_hooks is not None:
            raise _Unclear
        storage = value.untyped_storage()
        shared = self._seen.setdefault(("storage", storage._cdata), len(self._seen))
        if shared == len(self._kept):
            self._kept.append(storage)
            if not isinstance(value, FakeTensor):
                self._add_contents(value, storage)
        self._update_digest(
            type(value).__qualname__,
            str(value.dtype),
            tuple(map(_to_int, value.shape)),
            tuple(map(_to_int, value.stride())),
            _to_int(value.storage_offset()),
            _to_int(storage.nbytes()),
            shared,
            str(value.device),
            (value.requires_grad, value.is_leaf, value.is_inference()),
            (value.is_conj(), value.is_neg(), bool(getattr(value, "_is_param", False))),
        )
        constant = getattr(value, "constant", None)
        if constant is not None:
            if constant.numel() > _MOST_CONSTANT:
                raise _Unclear
            self._update_digest("constant", constant.tolist())
        marks = {name: one for name, one in vars(value).items() if name.startswith("_dynamo")}
        return [value.grad if value.is_leaf else None, marks]

    def _add_contents(self, value: Any, storage: Any) -> None:
        self._bytes += storage.nbytes()
        if self._bytes > _MOST_BYTES or value.device.type != "cpu":
            raise _Unclear
        self._hash.update(ctypes.string_at(storage.data_ptr(), storage.nbytes()))

    def _add_class(self, kind: type) -> None:
        self._update_digest("class", kind.__module__, kind.__qualname__)
        for one in kind.__mro__:
            if one.__module__ != self._module:
                continue
            self._add_definition(one.__qualname__)
            plain = {n: v for n, v in vars(one).items() if isinstance(v, _PLAIN)}
            self._update_digest(sorted(plain.items(), key=lambda item: item[0]))

    def _add_definition(self, name: str) -> None:
        top = name.partition(".")[0]
        if top not in self._namespace:
            raise _Unclear
        self.definitions.add(top)

    def _describe_function(self, value: types.FunctionType) -> list[Any]:
        self._update_digest("function", value.__module__, value.__qualname__)
        if value.__code__.co_filename == self._path:
            self._add_definition(value.__qualname__)
        else:
            self._update_digest(value.__code__.co_code, value.__code__.co_firstlineno)
        cells = list(closure_contents(value))
        return [cells, value.__defaults__, value.__kwdefaults__, vars(value)]

    def _describe_object(self, value: Any) -> list[Any]:
        kind = type(value)
        held: list[Any] = []
        if isinstance(value, dict):
            held += itertools.chain(*value.items())
            held.append(getattr(value, "default_factory", None))
        elif isinstance(value, (list, tuple, collections.deque)):
            held += value
        elif isinstance(value, (set, frozenset)):
            if not all(type(one) in _PLAIN for one in value):
                raise _Unclear
            held += sorted(value, key=repr)
        elif not _is_plain_class(kind):
            raise _Unclear
        self._update_digest(len(held))
        if kind.__module__ != "builtins":
            self._add_class(kind)
        else:
            self._update_digest("builtin", kind.__qualname__)
        return [*held, *itertools.chain(*instance_state(value).items())]


def _is_plain_class(kind: type) -> bool:
    """Whether instances of a class store all their state in attributes, so that a digest can cover
    it."""
    for one in kind.__mro__[:-1]:
        if not one.__flags__ & _HEAP_TYPE:
            return False
        if one.__base__ is object and not {"__dict__", "__slots__"} & vars(one).keys():
            return False  # the class is written in C
    return True


def _to_int(value: Any) -> int:
    if type(value) is not int:
        raise _Unclear  # the value is symbolic
    return value
