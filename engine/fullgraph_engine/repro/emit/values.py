"""Values as expressions: what has to be written so that a program has an equal value.

One :class:`Writing` writes one value with everything in it. An object that is reached twice is
written twice and then made one again by an assignment (``self.head.weight = self.embed.weight``),
so that cycles and tied weights need no other means. Where the result needs such assignments and is
no module that can make them in its ``__init__``, it gets a name at module level.
"""

from __future__ import annotations

import ast
import builtins
import collections
import dataclasses
import enum
import functools
import math
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...targets import unwrap
from ...torch_internals import dispatcher
from . import definitions, instances, modules, tensors
from .displays import repeated
from .unwritable import Unwritable

if TYPE_CHECKING:
    from .program import Draft

_LONG = 8
"""From how many equal items on a list is written as a product or a comprehension."""

_IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


class NamedValues:
    """Which values of a program have a name at module level, and which classes it has."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[object, str]] = {}
        self.storages: dict[tensors.StorageKey, tensors.Base] = {}
        self.classes: dict[str, str] = {}
        self.mentioned: set[str] = set()
        self.reached: dict[tuple[type, frozenset[str]], instances.Reached] = {}

    def name(self, value: object, name: str) -> None:
        """``value`` can be had as ``name`` from here on."""
        self._names[id(value)] = (value, name)
        if isinstance(value, torch.Tensor):
            tensors.remember(self.storages, value, name)

    def named(self, value: object) -> str | None:
        known = self._names.get(id(value))
        return None if known is None else known[1]

    def mention(self, code: object) -> None:
        """The program contains a function or a statement: an object that it meets needs the
        attributes that the code speaks of."""
        if isinstance(code, ast.AST):
            self.mentioned |= instances.words_of_syntax(code)
        else:
            self.mentioned |= instances.words_of(code)


def expression(draft: Draft, value: object, hint: str = "value") -> str:
    """A Python expression for ``value``. ``hint``: what to call it if it must have a name.

    Raises:
        Unwritable: something in it has no source text.
    """
    return expressions(draft, [value], [hint])[0]


def expressions(draft: Draft, values: Sequence[object], hints: Sequence[str] = ()) -> list[str]:
    """Expressions for values that may share objects and storages, as the arguments of a call do.

    Write the functions that use them first: what those reach is what objects are reduced to.
    """
    names = [*hints, *["value"] * (len(values) - len(hints))]
    try:
        with reading():
            known = frozenset(draft.written.mentioned)
            draft.written.mentioned |= instances.words_within(values, known)
            for value in _shared(values):
                if draft.written.named(value) is None:
                    tensors.name_base(draft, value)
                    _name(draft, value, "x" if isinstance(value, torch.Tensor) else "shared")
            return [_whole(draft, value, hint) for value, hint in zip(values, names, strict=True)]
    except RecursionError:
        raise Unwritable("a value is nested too deeply to be written") from None


def _whole(draft: Draft, value: object, hint: str) -> str:
    writing = Writing(draft)
    text = writing.expression(value, "")
    if not writing.after:
        return text
    name = draft.fresh(hint)
    draft.add(f"{name} = {text}")
    for statement in writing.after:
        draft.add(statement.text("", name))
    draft.written.name(value, name)
    return name


def _name(draft: Draft, value: object, hint: str) -> None:
    text = _whole(draft, value, hint)
    if draft.written.named(value) is None:
        name = draft.fresh(hint)
        draft.add(f"{name} = {text}")
        draft.written.name(value, name)


@contextmanager
def reading() -> Iterator[None]:
    """Tensors are looked at, not computed with: no mode sees it, no gradient is recorded."""
    functions = dispatcher.without_torch_function()
    with torch.no_grad(), functions, dispatcher.without_modes():
        yield


def _shared(values: Sequence[object]) -> list[object]:
    """The objects that several places of ``values`` hold, outside modules; of tensors that share
    a storage the first ones, so that the others can be written as views."""
    counts: collections.Counter[int] = collections.Counter()
    holders: dict[tensors.StorageKey, list[torch.Tensor]] = {}
    order: list[object] = []

    def visit(value: object) -> None:
        if isinstance(value, (torch.Tensor, torch.nn.Module, list, dict)):
            counts[id(value)] += 1
            if counts[id(value)] > 1:
                return
            order.append(value)
        if isinstance(value, torch.Tensor):
            key = tensors.storage_key(value)
            if key is not None:
                holders.setdefault(key, []).append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item)
        elif isinstance(value, dict):
            for item in value.values():
                visit(item)

    for value in values:
        visit(value)
    alike = {id(one) for group in holders.values() if len(group) > 1 for one in group}
    return [one for one in order if counts[id(one)] > 1 or id(one) in alike]


@dataclass(frozen=True)
class Afterwards:
    """A statement to be run when the value is there. ``template`` holds its places as ``{0}``."""

    template: str
    places: tuple[str, ...]

    def within(self, place: str) -> bool:
        return all(_begins(one, place) for one in self.places)

    def text(self, root: str, name: str) -> str:
        """The statement, where what is at ``root`` is called ``name``."""
        text = self.template
        for index, place in enumerate(self.places):
            text = text.replace(f"{{{index}}}", name + place[len(root) :])
        return text


def _begins(place: str, root: str) -> bool:
    return place.startswith(root) and (not root or place[len(root) :][:1] in ("", ".", "["))


class Writing:
    """One value being written. A *place* says how to get from the whole value to a part of it:
    ``.layers[0].weight``; None where a part cannot be assigned, as in a tuple."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.after: list[Afterwards] = []
        self.outer = modules.Outer()
        self.words = frozenset(draft.written.mentioned)
        self._places: dict[int, tuple[object, str | None]] = {}
        self._active: set[int] = set()
        self._copies = 0

    def refer(self, thing: Any) -> str:
        return self.draft.refer(thing)

    def then(self, template: str, *places: str | None) -> None:
        """Run a statement on parts of the value when it is there."""
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            raise Unwritable("an object inside a tuple or a set differs from how it is constructed")
        if not self._copies:
            self.after.append(Afterwards(template, tuple(known)))

    def place_of(self, value: object) -> str | None:
        """Where ``value`` was written first."""
        known = self._places.get(id(value))
        return None if known is None else known[1]

    def placed(self, value: object, place: str | None) -> None:
        """``value`` comes to be at ``place`` without being written."""
        self._places.setdefault(id(value), (value, place))

    def expression(self, value: object, place: str | None) -> str:
        text = constant(value)
        if text is None:
            text = self.draft.written.named(value)
        if text is not None:
            return text
        return self._object(value, place)

    def _object(self, value: object, place: str | None) -> str:
        known = self._places.get(id(value))
        if known is None:
            self._places[id(value)] = (value, place)
            return self._entered(value, place)
        if id(value) in self._active:
            if place is None or known[1] is None:
                raise Unwritable(f"a {type(value).__name__} contains itself")
            self.then("{0} = {1}", place, known[1])
            return "None"
        if place is not None and known[1] is not None and _has_identity(value):
            self.then("{0} = {1}", place, known[1])
        self._copies += 1
        try:
            return self._entered(value, place)
        finally:
            self._copies -= 1

    def _entered(self, value: object, place: str | None) -> str:
        self._active.add(id(value))
        try:
            return self._written(value, place)
        finally:
            self._active.discard(id(value))

    def _written(self, value: Any, place: str | None) -> str:
        original = unwrap(value) if callable(value) else value
        if original is not value:
            return self.expression(original, place)
        if isinstance(value, torch.Tensor):
            return tensors.written(self, value, place)
        if isinstance(value, torch.nn.Module):
            return modules.written(self, value, place)
        if isinstance(value, enum.Enum):
            return self._enum(value)
        if isinstance(value, types.MethodType):
            return f"{self.operand(value.__self__, None)}.{value.__func__.__name__}"
        if definitions.is_bound_builtin(value):
            return f"{self.operand(value.__self__, None)}.{value.__name__}"
        if definitions.is_referable(value) or _is_operator(value):
            return self.refer(value)
        for known, write in _WRITERS:
            if isinstance(value, known) and known is type(value):
                return write(self, value, place)
        text = torch_value(self, value)
        if text is None:
            text = self._numpy(value)
        if text is None:
            text = self._structure(value, place)
        return text if text is not None else instances.written(self, value, place)

    def operand(self, value: object, place: str | None) -> str:
        """An expression that an attribute or an operator can follow."""
        text = self.expression(value, place)
        return f"({text})" if text[:1] in "-~" or text[:1].isdigit() else text

    def items(self, values: Sequence[object], place: str | None) -> list[str]:
        return [
            self.expression(value, None if place is None else f"{place}[{index}]")
            for index, value in enumerate(values)
        ]

    def called(self, function: str, args: Sequence[object], kwargs: dict[str, object]) -> str:
        """A call, its arguments written."""
        parts = [self.expression(value, None) for value in args]
        parts += [f"{name}={self.expression(value, None)}" for name, value in kwargs.items()]
        return f"{function}({', '.join(parts)})"

    def _enum(self, value: enum.Enum) -> str:
        owner = self.refer(type(value))
        name = value.name
        if isinstance(name, str) and type(value).__members__.get(name) is value:
            return f"{owner}.{name}" if name.isidentifier() else f"{owner}[{name!r}]"
        return f"{owner}({self.expression(value.value, None)})"

    def _structure(self, value: Any, place: str | None) -> str | None:
        """Instances of classes that say of what they are made."""
        kind = type(value)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(value, place)
        if isinstance(value, tuple):
            if hasattr(kind, "_fields"):
                return self.called(self.refer(kind), list(value), {})
            if hasattr(kind, "n_sequence_fields"):
                return f"{self.refer(kind)}({self.expression(tuple(value), None)})"
        for base in _PLAIN_BASES:
            if isinstance(value, base) and not getattr(value, "__dict__", None):
                plain = base(value)
                return f"{self.refer(kind)}({self.expression(plain, None) if plain else ''})"
        if _is_standard(kind):
            return self._reduced(value)
        return None

    def _dataclass(self, value: Any, place: str | None) -> str | None:
        kind = type(value)
        given: dict[str, object] = {}
        fields = {field.name: field for field in dataclasses.fields(value)}
        attributes = getattr(value, "__dict__", None)
        if attributes is not None and not set(attributes) <= set(fields):
            return None
        for field in fields.values():
            if not field.init:
                continue
            if not hasattr(value, field.name):
                return None
            content = getattr(value, field.name)
            if not _is_default(field, content):
                given[field.name] = content
        parts = [
            f"{name}={self.expression(content, None if place is None else f'{place}.{name}')}"
            for name, content in given.items()
        ]
        return f"{self.refer(kind)}({', '.join(parts)})"

    def _reduced(self, value: Any) -> str | None:
        """Objects of the standard library, the way ``pickle`` would make them."""
        if isinstance(value, _VIEWS):
            method = type(value).__name__.removeprefix("dict_")
            return f"{self.expression(dict(value.mapping), None)}.{method}()"
        if type(value) in _LOCKS:
            return f"{self.refer(threading)}.{_LOCKS[type(value)]}()"
        try:
            reduced = value.__reduce_ex__(2)
        except Exception as error:
            raise Unwritable(f"a {_kind(value)} has no source text ({error})") from error
        if isinstance(reduced, str):
            return self.refer(value)
        function, args, *rest = reduced
        if function is iter and len(args) == 1:
            # The third part of what iterators give is how far they are.
            left = args[0][rest[0] or 0 :] if rest else args[0]
            return self.called("iter", [left], {})
        if any(part is not None for part in rest):
            return None
        if getattr(function, "__name__", "") == "__newobj__":
            function, args = args[0], args[1:]
        return self.called(self.refer(function), args, {})

    def _numpy(self, value: Any) -> str | None:
        numpy: Any = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, (numpy.generic, numpy.ndarray, numpy.dtype)):
            return None
        name = self.refer(numpy)
        if isinstance(value, numpy.dtype):
            return f"{name}.dtype({value.str!r})"
        kind = str(value.dtype)
        if not hasattr(numpy, kind) or kind == "object":
            raise Unwritable(f"an array of numpy's {kind} has no source text")
        if isinstance(value, numpy.generic):
            return f"{name}.{kind}({self.expression(value.item(), None)})"
        dtype = f"dtype={name}.{kind}"
        shape = self.expression(tuple(value.shape), None)
        if value.size <= tensors.INLINE:
            text = f"{name}.array({self.expression(value.tolist(), None)}, {dtype})"
            flat = value.ndim < 2 or value.size
            return text if flat else f"{name}.zeros({shape}, {dtype})"
        if value.dtype.kind in "iu":
            low, high = int(value.min()), int(value.max())
            if low == high:
                return f"{name}.full({shape}, {low}, {dtype})"
            return f"{name}.random.randint({low}, {high + 1}, {shape}, {dtype})"
        if value.dtype.kind == "b":
            return f"{name}.random.rand({', '.join(map(str, value.shape))}) > 0.5"
        if value.dtype.kind in "fc":
            text = f"{name}.random.randn({', '.join(map(str, value.shape))})"
            return text if kind == "float64" else f"{text}.astype({name}.{kind})"
        raise Unwritable(f"a large array of numpy's {kind} has no source text")


_LOCKS = {
    type(threading.Lock()): "Lock",
    type(threading.RLock()): "RLock",
    threading.Condition: "Condition",
    threading.Event: "Event",
}
"""Nobody holds them in the program."""

_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))


def constant(value: object) -> str | None:
    """The literal of a constant, None if ``value`` is none."""
    kind = type(value)
    if value is None or value is Ellipsis or value is NotImplemented or kind is bool:
        return repr(value)
    if kind is str or kind is bytes:
        return repr(value)
    if kind is int:
        assert isinstance(value, int)
        return repr(value) if value.bit_length() < 10_000 else f"int({hex(value)!r}, 16)"
    if kind is float:
        assert isinstance(value, float)
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if kind is complex:
        assert isinstance(value, complex)
        text = repr(value)
        if text[0].isdigit() and "n" not in text:
            return text
        return f"complex({constant(value.real)}, {constant(value.imag)})"
    return None


def torch_value(writing: Writing, value: Any) -> str | None:
    """What torch has besides tensors and modules."""
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)):
        return tensors.spelled(writing, value)
    if isinstance(value, torch.device):
        return f'{writing.refer(torch)}.device("{value}")'
    if isinstance(value, torch.Size):
        return f"{writing.refer(torch)}.Size({[tensors.hint(size) for size in value]})"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return constant(tensors.hint(value))
    if isinstance(value, torch.Generator):
        where = "" if value.device.type == "cpu" else f'device="{value.device}"'
        made = f"{writing.refer(torch)}.Generator({where})"
        seed = value.initial_seed()
        return made if seed == torch.Generator().initial_seed() else f"{made}.manual_seed({seed})"
    if isinstance(value, (torch.finfo, torch.iinfo)):
        name = "finfo" if isinstance(value, torch.finfo) else "iinfo"
        return f"{writing.refer(torch)}.{name}({writing.refer(torch)}.{value.dtype})"
    if type(value).__module__ == "torch.return_types":
        kind = f"{writing.refer(torch)}.return_types.{type(value).__name__}"
        return f"{kind}({writing.expression(tuple(value), None)})"
    return None


# -- containers and other builtins ------------------------------------------------------------


def _list(writing: Writing, value: list[Any], place: str | None) -> str:
    if len(value) > _LONG and value == list(range(len(value))) and _ints(value):
        return f"list(range({len(value)}))"
    texts = writing.items(value, place)
    return repeated(texts, immutable=all(isinstance(item, _IMMUTABLE) for item in value))


def _ints(values: Sequence[object]) -> bool:
    return all(type(value) is int for value in values)


def _tuple(writing: Writing, value: tuple[Any, ...], place: str | None) -> str:
    texts = writing.items(value, None)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _mapping(writing: Writing, value: Any, place: str | None) -> str:
    parts = []
    for key, item in value.items():
        name = writing.expression(key, None)
        where = None if place is None else f"{place}[{name}]"
        parts.append(f"{name}: {writing.expression(item, where)}")
    return "{" + ", ".join(parts) + "}"


def _ordered(writing: Writing, value: Any, place: str | None) -> str:
    inner = _mapping(writing, value, place)
    return f"{writing.refer(collections)}.OrderedDict({'' if inner == '{}' else inner})"


def _defaulting(writing: Writing, value: Any, place: str | None) -> str:
    factory = writing.expression(value.default_factory, None)
    inner = f", {_mapping(writing, value, place)}" if value else ""
    return f"{writing.refer(collections)}.defaultdict({factory}{inner})"


def _counter(writing: Writing, value: Any, place: str | None) -> str:
    return f"{writing.refer(collections)}.Counter({_mapping(writing, value, place)})"


def _deque(writing: Writing, value: Any, place: str | None) -> str:
    inner = repeated(writing.items(list(value), place))
    length = "" if value.maxlen is None else f", maxlen={value.maxlen}"
    return f"{writing.refer(collections)}.deque({inner}{length})"


def _set(writing: Writing, value: Any, place: str | None) -> str:
    # Sorted, as the order of a set of strings differs from process to process.
    return "{" + ", ".join(sorted(writing.items(list(value), None))) + "}" if value else "set()"


def _frozenset(writing: Writing, value: Any, place: str | None) -> str:
    return f"frozenset({_set(writing, value, None) if value else ''})"


def _range(writing: Writing, value: range, place: str | None) -> str:
    parts = [value.start, value.stop, value.step]
    if value.step == 1:
        parts.pop()
        if value.start == 0:
            parts.pop(0)
    return f"range({', '.join(map(str, parts))})"


def _slice(writing: Writing, value: slice, place: str | None) -> str:
    parts = [writing.expression(part, None) for part in (value.start, value.stop, value.step)]
    if parts[2] == "None":
        parts.pop()
        if parts[0] == "None":
            parts.pop(0)
    return f"slice({', '.join(parts)})"


def _partial(writing: Writing, value: functools.partial[Any], place: str | None) -> str:
    name = f"{writing.refer(functools)}.partial"
    return writing.called(name, [value.func, *value.args], value.keywords)


def _namespace(writing: Writing, value: types.SimpleNamespace, place: str | None) -> str:
    parts = [
        f"{name}={writing.expression(item, None if place is None else f'{place}.{name}')}"
        for name, item in vars(value).items()
    ]
    return f"{writing.refer(types)}.SimpleNamespace({', '.join(parts)})"


def _proxy(writing: Writing, value: Any, place: str | None) -> str:
    return f"{writing.refer(types)}.MappingProxyType({_mapping(writing, value, None)})"


def _bytearray(writing: Writing, value: bytearray, place: str | None) -> str:
    return repr(value)


def _alias(writing: Writing, value: Any, place: str | None) -> str:
    inner = ", ".join(writing.items(value.__args__, None))
    return f"{writing.expression(value.__origin__, None)}[{inner}]"


def _descriptor(writing: Writing, value: Any, place: str | None) -> str:
    return f"{writing.refer(value.__objclass__)}.{value.__name__}"


_WRITERS: tuple[tuple[type, Callable[[Writing, Any, str | None], str]], ...] = (
    (list, _list),
    (tuple, _tuple),
    (dict, _mapping),
    (collections.OrderedDict, _ordered),
    (collections.defaultdict, _defaulting),
    (collections.Counter, _counter),
    (collections.deque, _deque),
    (set, _set),
    (frozenset, _frozenset),
    (range, _range),
    (slice, _slice),
    (bytearray, _bytearray),
    (functools.partial, _partial),
    (types.SimpleNamespace, _namespace),
    (types.MappingProxyType, _proxy),
    (types.MethodDescriptorType, _descriptor),
    (types.WrapperDescriptorType, _descriptor),
    (types.GenericAlias, _alias),
)

_THINGS = (type, types.FunctionType, types.ModuleType)

_PLAIN_BASES: tuple[type, ...] = (int, float, str, bytes, dict, list, set, frozenset, tuple)


def _is_operator(value: object) -> bool:
    """Functions that are objects: operators of torch, custom ones, cached functions."""
    kind = type(value)
    return kind.__module__ in dispatcher.OPERATOR_MODULES or (kind.__name__ == "_lru_cache_wrapper")


def _is_standard(kind: type) -> bool:
    root = kind.__module__.split(".")[0]
    return root in sys.stdlib_module_names or kind.__module__ == builtins.__name__


def _has_identity(value: object) -> bool:
    """Whether it shows that two equal values are not one."""
    return not isinstance(value, (*_THINGS, *_PLAIN_BASES, types.MethodType, enum.Enum)) and (
        type(value).__hash__ is object.__hash__ or isinstance(value, torch.Tensor)
    )


def _is_default(field: dataclasses.Field[Any], content: object) -> bool:
    default = field.default
    if default is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return False
        if field.default_factory not in (list, dict, set, tuple):
            return False
        default = field.default_factory()
    if type(default) is not type(content):
        return False
    if isinstance(content, (list, dict, set, tuple)):
        return not content and not default
    return default is content or (isinstance(content, _IMMUTABLE) and default == content)


def _kind(value: object) -> str:
    kind = type(value)
    where = "" if kind.__module__ == builtins.__name__ else f"{kind.__module__}."
    return f"{where}{kind.__qualname__}"
