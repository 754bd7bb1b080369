"""The attributes and methods of an object that the code of a generated program may use.

The decision uses all names in the bytecode, whatever object they belong to, so it keeps too many
members rather than too few.
"""

from __future__ import annotations

import abc
import ast
import functools
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...object_state import closure_contents, instance_state

_UNKEPT_WORDS = (
    "__init__ __new__ __del__ __repr__ __str__ __reduce__ __reduce_ex__ __getstate__ __setstate__ "
    "__getnewargs__ __getnewargs_ex__ __copy__ __deepcopy__ __init_subclass__ "
    "__class_getitem__ __dir__ __sizeof__ __format__ __module__ __doc__ __dict__ __weakref__ "
    "__annotations__ __qualname__ __slots__ __parameters__ __orig_bases__ __abstractmethods__ "
    "__firstlineno__ __static_attributes__ __match_args__ __dataclass_fields__ "
    "__dataclass_params__ __constants__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __set_name__"
)
_UNKEPT = frozenset(_UNKEPT_WORDS.split())

EVERYTHING = frozenset({"__dict__", "vars", "__getattribute__", "asdict", "fields", "__slots__"})
"""Names, such as ``vars``, with which code may read any attribute of an object."""


def is_library(kind: Any) -> bool:
    """Whether a class or function belongs to torch or Python's standard library."""
    root = (getattr(kind, "__module__", None) or "builtins").split(".")[0]
    return root == "torch" or (root in sys.stdlib_module_names and root != "__main__")


_NAME = re.compile(r"[A-Za-z_]\w*")


# -- names in code ----------------------------------------------------------------------------


def words_of(thing: object) -> frozenset[str]:
    """Return the names and strings in a function's code, and in the global functions that it calls.

    The code may read attributes with these names. An entry ``layer*`` stands for all names that
    begin with ``layer``, if the code looks up attributes by string.
    """
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[object] = [thing]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for function in _member_functions(one):
            if is_library(function) or id(function.__code__) in seen:
                continue
            seen.add(id(function.__code__))
            words = _words_of_code(function.__code__)
            found |= words
            waiting += [function.__globals__[word] for word in words & function.__globals__.keys()]
            waiting += closure_contents(function)
    return frozenset(found)


def words_of_syntax(tree: ast.AST) -> frozenset[str]:
    """Return the names and strings in a syntax tree, in the form of :func:`words_of`."""
    words: set[str] = set()
    strings: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Constant):
            strings |= set(_name_strings(node.value))
    return _add_attribute_patterns(words, strings)


def _add_attribute_patterns(words: set[str], strings: set[str]) -> frozenset[str]:
    if words & {"getattr", "hasattr", "setattr", "attrgetter"}:
        strings = strings | {f"{one}*" for one in strings}
    return frozenset(words | strings)


def functions_of(thing: object) -> Iterator[types.FunctionType]:
    """Yield the Python functions wrapped by a function, method, descriptor or cached function."""
    if isinstance(thing, types.FunctionType):
        yield thing
    elif isinstance(thing, (types.MethodType, classmethod, staticmethod)):
        yield from functions_of(thing.__func__)
    elif isinstance(thing, property):
        for part in (thing.fget, thing.fset, thing.fdel):
            yield from functions_of(part)
    elif isinstance(thing, (functools.partial, functools.cached_property)):
        yield from functions_of(thing.func)
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, (dict, types.MappingProxyType)) and not isinstance(thing, type):
        for name in ("__wrapped__", "_torchdynamo_orig_callable"):
            if name in attributes:
                yield from functions_of(attributes[name])


def _member_functions(thing: object) -> Iterator[types.FunctionType]:
    """Yield the functions of all members of a class; for another value, the functions that it
    wraps.
    """
    if not isinstance(thing, type):
        yield from functions_of(thing)
    elif not is_library(thing):
        for member in vars(thing).values():
            yield from functions_of(member)


@functools.lru_cache(maxsize=4096)
def _words_of_code(code: types.CodeType) -> frozenset[str]:
    words = set(code.co_names)
    strings: set[str] = set()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            words |= _words_of_code(constant)
        else:
            strings |= set(_name_strings(constant))
    return _add_attribute_patterns(words, strings)


def _name_strings(constant: object) -> Iterator[str]:
    if isinstance(constant, str):
        name = _NAME.match(constant)
        # Formats such as ``layer{}`` and ``layer%d`` count as their prefix.
        if name is not None and constant[name.end() :][:1] in ("", "{", "%"):
            yield name.group()
    elif isinstance(constant, (tuple, frozenset)):
        for item in constant:
            yield from _name_strings(item)


def may_look_up(words: frozenset[str], name: str) -> bool:
    """Whether code may read the attribute ``name``; ``words`` are the names and strings in the
    code.
    """
    if name in words:
        return True
    return any(word[-1] == "*" and name.startswith(word[:-1]) for word in words if word)


# -- classes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A member (method or attribute) of a user's class to copy into the generated program, with the
    class that defines it.
    """

    owner: type
    name: str
    value: object

    @property
    def is_code(self) -> bool:
        return next(_member_functions(self.value), None) is not None and not isinstance(
            self.value, type
        )


@dataclass(frozen=True)
class ReachedMembers:
    """The members of a class that the generated program must copy, members of base classes last.

    ``words`` are the names and strings in their code.
    """

    members: tuple[Member, ...]
    words: frozenset[str]
    uses_super: bool


def user_classes(kind: type) -> list[type]:
    """Return the classes in a class's MRO that the generated program defines, most derived
    first.
    """
    return [one for one in kind.__mro__ if not is_library(one)]


def find_reached_members(
    kind: type, words: frozenset[str], *, everything: bool = False
) -> ReachedMembers:
    """Return the members of the class ``kind`` that code may use, and the members that these use.

    ``words`` are the names in the code. With ``everything``, return all members.
    """
    owners = user_classes(kind)
    kept: dict[tuple[type, str], Member] = {}
    uses_super = False
    while True:
        size = len(kept)
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if name in _UNKEPT or (owner, name) in kept:
                    continue
                member = Member(owner, name, value)
                hidden = any((one, name) in kept for one in owners[: owners.index(owner)])
                if hidden and not uses_super:
                    continue
                dunder = name.startswith("__") and name.endswith("__") and member.is_code
                named = may_look_up(words, name) or may_look_up(words, unmangle_name(owner, name))
                if not (dunder or everything or named):
                    continue
                kept[owner, name] = member
                for function in _member_functions(value) if member.is_code else ():
                    words |= words_of(function)
                    uses_super |= "__class__" in function.__code__.co_freevars
        if len(kept) == size:
            break
    order = {owner: index for index, owner in enumerate(owners)}
    in_order = sorted(kept.values(), key=lambda one: order[one.owner])
    return ReachedMembers(tuple(in_order), words, uses_super)


def unmangle_name(owner: type, name: str) -> str:
    """Return a private name as written in its class: ``__x`` for ``_Net__x``."""
    prefix = f"_{owner.__name__.lstrip('_')}__"
    return name[len(prefix) - 2 :] if name.startswith(prefix) else name


def words_within(values: Iterable[object], words: frozenset[str]) -> frozenset[str]:
    """Return ``words``, and the names and strings in the code of all objects inside the values."""
    kinds, methods = _user_classes_within(values)
    for method in methods:
        words |= words_of(method) | {method.__func__.__name__}
    if not words and not any(issubclass(kind, torch.nn.Module) for kind in kinds):
        return words  # the code may use any name, so all members are kept
    while True:
        before = words
        for kind in kinds:
            is_module = issubclass(kind, torch.nn.Module)
            words = find_reached_members(kind, words | {"forward"} if is_module else words).words
        if words == before:
            return words


_VISITED = 20_000


def _user_classes_within(values: Iterable[object]) -> tuple[list[type], list[types.MethodType]]:
    """Return the user classes of all objects inside the values, and the bound methods among
    them.
    """
    kinds: dict[type, None] = {}
    methods: list[types.MethodType] = []
    seen: dict[int, object] = {}
    waiting = list(values)
    while waiting and len(seen) < _VISITED:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (*_LEAVES, torch.Tensor)):
            continue
        seen[id(value)] = value
        if isinstance(value, dict):
            waiting += list(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += list(value)
        elif isinstance(value, types.MethodType):
            waiting.append(value.__self__)
            methods.append(value)
        elif isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        if not is_library(type(value)):
            kinds[type(value)] = None
            waiting += list(instance_state(value).values())
        elif isinstance(value, torch.nn.Module):
            hooks = (value._forward_pre_hooks, value._forward_hooks)
            waiting += [*value.children(), *(hook for each in hooks for hook in each.values())]
    return list(kinds), methods


_LEAVES = (type, types.FunctionType, types.ModuleType, str, bytes, int, float, complex)


def library_bases(kind: type) -> list[type]:
    """Return the base classes from torch or Python that the generated program's copy of a class
    needs.
    """
    found: list[type] = []
    for one in kind.__mro__:
        if not is_library(one) or one in (object, abc.ABC, typing.Generic, typing.Protocol):
            continue
        if not any(issubclass(known, one) for known in found):
            found.append(one)
    return found
