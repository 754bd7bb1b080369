"""``torch.nn.Module`` instances as expressions.

What is the same everywhere in a module is said once, around it: ``Net().eval().to(torch.float16)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from . import instances, layers, tensors
from .displays import repeated, spread
from .unwritable import Unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs.store import Store
    from .values import Writing


@dataclass(frozen=True)
class Outer:
    """What a call around a part will do to it: only what differs from that is written inside."""

    dtype: torch.dtype | None = None
    device: torch.device | None = None
    training: bool = True
    grad: bool = True

    def written(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype with which a parameter is made that shall have ``dtype`` in the end."""
        return torch.float32 if dtype == self.dtype else dtype


_INTERNAL_WORDS = (
    "training _parameters _buffers _modules _non_persistent_buffers_set _backward_pre_hooks "
    "_backward_hooks _is_full_backward_hook _forward_hooks _forward_hooks_with_kwargs "
    "_forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs "
    "_state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks "
    "_load_state_dict_post_hooks _compiled_call_impl _forward_module_hooks"
)
INTERNAL = frozenset(_INTERNAL_WORDS.split())
"""The state of every module, which is written by other means than assignments."""


_TRAVERSALS = (
    "parameters named_parameters children named_children modules named_modules buffers "
    "named_buffers state_dict apply _parameters _buffers _modules get_submodule get_parameter "
    "get_buffer"
)
EVERYTHING = instances.EVERYTHING | frozenset(_TRAVERSALS.split())
"""Code that speaks of these may reach any attribute of a module."""


def written(writing: Writing, module: torch.nn.Module, place: str | None) -> str:
    """An expression for a module."""
    if isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise Unwritable("a TorchScript module has no source text")
    if isinstance(module, torch.fx.GraphModule):
        raise Unwritable("a torch.fx.GraphModule has no source text")
    outer = writing.outer
    inner, around = _around(outer, module, writing.draft.store)
    writing.outer = inner
    try:
        text = _constructed(writing, module, place)
    finally:
        writing.outer = outer
    if module.training != inner.training and not instances.user_classes(type(module)):
        writing.then(f"{{0}}.training = {module.training}", place)
    _hooks(writing, module, place)
    return text + around


def _around(outer: Outer, module: torch.nn.Module, store: Store | None) -> tuple[Outer, str]:
    """The calls to be made on a module as a whole, and what is left to say inside."""
    text = ""
    flags = {part.training for part in module.modules()}
    if flags == {not outer.training}:
        outer = replace(outer, training=not outer.training)
        text += ".train()" if outer.training else ".eval()"
    parameters = list(module.parameters())
    if outer.grad and parameters and not any(one.requires_grad for one in parameters):
        outer = replace(outer, grad=False)
        text += ".requires_grad_(False)"
    states = [*parameters, *module.buffers()]
    said = []
    devices = {one.device for one in states}
    if outer.device is None and len(devices) == 1:
        device = devices.pop()
        if device.type not in ("cpu", "meta"):
            outer = replace(outer, device=device)
            said.append(f'"{device}"')
    dtypes = {one.dtype for one in states if one.is_floating_point() or one.is_complex()}
    # Real data has the dtype that it was found in.
    if outer.dtype is None and len(dtypes) == 1 and store is None:
        dtype = dtypes.pop()
        if dtype.is_floating_point and dtype != torch.float32:
            outer = replace(outer, dtype=dtype)
            said.append(str(dtype))
    return outer, f"{text}.to({', '.join(said)})" if said else text


def _constructed(writing: Writing, module: torch.nn.Module, place: str | None) -> str:
    kind = type(module)
    write = _CONTAINERS.get(kind)
    if write is not None:
        text = write(writing, module, place)
        if text is not None:
            return text
    if instances.is_library(kind):
        made = layers.constructed(writing, module, place)
        if made is None:
            raise Unwritable(f"a {kind.__module__}.{kind.__qualname__} has no source text")
        return made
    return _synthesized(writing, module, place)


# -- containers -------------------------------------------------------------------------------


def _only_children(module: torch.nn.Module) -> bool:
    """Whether a container has nothing but children."""
    own = set(vars(module)) - INTERNAL - {"_size", "_keys"}
    return not own and not any(one is not None for one in module._buffers.values())


def _children(writing: Writing, module: torch.nn.Module, place: str | None) -> list[str] | None:
    """The entries of a numbered container."""
    names = list(module._modules)
    if names != [str(index) for index in range(len(names))]:
        return None
    return writing.items(list(module._modules.values()), place)


def _named(writing: Writing, items: Iterable[tuple[str, Any]], place: str | None) -> str:
    parts = []
    for name, item in items:
        where = None if place is None else f"{place}[{name!r}]"
        parts.append(f"{name!r}: {writing.expression(item, where)}")
    return "{" + ", ".join(parts) + "}"


def _sequential(writing: Writing, module: Any, place: str | None) -> str | None:
    if not _only_children(module) or module._parameters:
        return None
    name = f"{writing.refer(torch)}.nn.Sequential"
    texts = _children(writing, module, place)
    if texts is None:
        import collections

        inner = _named_children(writing, module, place)
        return f"{name}({writing.refer(collections)}.OrderedDict({inner}))"
    return f"{name}({spread(repeated(texts))})"


def _named_children(writing: Writing, module: torch.nn.Module, place: str | None) -> str:
    parts = []
    for name, child in module._modules.items():
        where = None if place is None else _attribute(place, name)
        parts.append(f"{name!r}: {writing.expression(child, where)}")
    return "{" + ", ".join(parts) + "}"


def _attribute(place: str, name: str) -> str | None:
    return f"{place}.{name}" if name.isidentifier() else None


def _module_list(writing: Writing, module: Any, place: str | None) -> str | None:
    if not _only_children(module) or module._parameters:
        return None
    texts = _children(writing, module, place)
    if texts is None:
        for name, child in module._modules.items():
            writing.then(f"{{0}}.add_module({name!r}, {writing.expression(child, None)})", place)
    inner = repeated(texts) if texts else ""
    return f"{writing.refer(torch)}.nn.ModuleList({inner})"


def _module_dict(writing: Writing, module: Any, place: str | None) -> str | None:
    if not _only_children(module) or module._parameters:
        return None
    inner = _named(writing, module._modules.items(), place) if module._modules else ""
    return f"{writing.refer(torch)}.nn.ModuleDict({inner})"


def _parameter_list(writing: Writing, module: Any, place: str | None) -> str | None:
    texts = writing.items(list(module), place)
    inner = repeated(texts) if texts else ""
    return f"{writing.refer(torch)}.nn.ParameterList({inner})"


def _parameter_dict(writing: Writing, module: Any, place: str | None) -> str | None:
    inner = _named(writing, module.items(), place) if len(module) else ""
    return f"{writing.refer(torch)}.nn.ParameterDict({inner})"


_CONTAINERS: dict[type, Callable[[Writing, Any, str | None], str | None]] = {
    torch.nn.Sequential: _sequential,
    torch.nn.ModuleList: _module_list,
    torch.nn.ModuleDict: _module_dict,
    torch.nn.ParameterList: _parameter_list,
    torch.nn.ParameterDict: _parameter_dict,
}


# -- the user's classes -----------------------------------------------------------------------


def _synthesized(writing: Writing, module: torch.nn.Module, place: str | None) -> str:
    kind = type(module)
    found = instances.reached(writing, kind, writing.words | {"forward"})
    everything = bool(found.words & EVERYTHING)
    before = len(writing.after)
    bases = instances.outside(kind)
    base = next(one for one in bases if issubclass(one, torch.nn.Module))
    first, done = _super_init(writing, module, base, place)

    statements = [first]
    with _words(writing, found.words):
        for name, item in _state(module, done):
            if not (everything or instances.reaches(found.words, name)) and name.isidentifier():
                continue
            text = _assigned(writing, module, name, item, place)
            if text is not None:
                statements.append(text)
    if module.training != writing.outer.training:
        statements.append(f"self.training = {module.training}")
    statements += instances.own_afterwards(writing, before, place)
    return instances.synthesized(writing, kind, found, statements, bases)


@contextmanager
def _words(writing: Writing, words: frozenset[str]) -> Iterator[None]:
    outer = writing.words
    writing.words = words
    try:
        yield
    finally:
        writing.words = outer


def _super_init(
    writing: Writing, module: torch.nn.Module, base: type, place: str | None
) -> tuple[str, frozenset[str]]:
    """The call of torch's constructor, and which attributes it makes."""
    if base is torch.nn.Module:
        return "super().__init__()", frozenset()
    if base in (torch.nn.Sequential, torch.nn.ModuleList):
        count = sum(name.isdigit() for name in module._modules)
        if list(module._modules)[:count] == [str(index) for index in range(count)]:
            entries = list(module._modules.values())[:count]
            shown = repeated(writing.items(entries, place))
            inner = shown if base is torch.nn.ModuleList else spread(shown)
            return f"super().__init__({inner})", frozenset(map(str, range(count)))
    if base in _CONTAINERS:
        return "super().__init__()", frozenset({"_size", "_keys"})
    made = layers.arguments(writing, module, base, place)
    if made is not None:
        text, done = made
        return f"super().__init__({text})", done
    return f"{writing.refer(torch)}.nn.Module.__init__(self)", frozenset()


def _state(module: torch.nn.Module, done: frozenset[str]) -> list[tuple[str, object]]:
    """Attributes in the order in which they were made, as far as that is known."""
    plain = {name: item for name, item in vars(module).items() if name not in INTERNAL}
    plain |= {
        name: item
        for name, item in instances.state_of(module).items()
        if name not in INTERNAL and name not in plain
    }
    own = {**plain, **module._parameters, **module._buffers, **module._modules}
    return [(name, item) for name, item in own.items() if name not in done]


def _assigned(
    writing: Writing, module: torch.nn.Module, name: str, item: Any, place: str | None
) -> str | None:
    if name in module._parameters and item is None:
        return f"self.register_parameter({name!r}, None)"
    if name in module._buffers:
        late = ", persistent=False" if name in module._non_persistent_buffers_set else ""
        if item is None:
            return f"self.register_buffer({name!r}, None{late})"
        known = writing.place_of(item)
        if known is None:
            writing.placed(item, None if place is None else f"{place}.{name}")
            return f"self.register_buffer({name!r}, {tensors.buffer(writing, item)}{late})"
    if name in module._modules and not name.isidentifier():
        return f"self.add_module({name!r}, {writing.expression(item, None)})"
    return instances.attribute(writing, type(module), name, item, place)


# -- hooks ------------------------------------------------------------------------------------

_HOOKS = (
    ("_forward_pre_hooks", "register_forward_pre_hook", "_forward_pre_hooks_with_kwargs"),
    ("_forward_hooks", "register_forward_hook", "_forward_hooks_with_kwargs"),
    ("_backward_pre_hooks", "register_full_backward_pre_hook", ""),
    ("_backward_hooks", "register_full_backward_hook", ""),
)


def _hooks(writing: Writing, module: torch.nn.Module, place: str | None) -> None:
    for holder, register, flags in _HOOKS:
        for key, hook in getattr(module, holder, {}).items():
            if getattr(hook, "__self__", None) is module and instances.is_library(hook):
                continue  # the constructor's own, of lazy modules
            with_kwargs = key in getattr(module, flags, {}) if flags else False
            said = ", with_kwargs=True" if with_kwargs else ""
            try:
                text = writing.expression(hook, None)
            except Unwritable as error:
                writing.draft.note(f"leaves out a hook of {type(module).__name__}: {error.reason}")
                continue
            writing.then(f"{{0}}.{register}({text}{said})", place)
