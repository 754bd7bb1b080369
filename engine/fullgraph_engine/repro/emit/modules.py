"""``torch.nn.Module`` instances written as expressions.

Dtype, device and mode of a module are set by one call: ``Net().eval().to(torch.float16)``.
"""

from __future__ import annotations

import collections
from dataclasses import replace
from typing import Any

import torch

from ...object_state import instance_state
from ..inputs.store import TensorStore
from . import instances, layers, reachability
from .displays import list_display, spread_arguments
from .layers import INTERNAL
from .printer import Outer, Printer, Writer
from .tensors.tensor import buffer_text
from .unwritable import UnwritableValue

_TRAVERSALS = (
    "parameters named_parameters children named_children modules named_modules buffers "
    "named_buffers state_dict apply _parameters _buffers _modules get_submodule get_parameter "
    "get_buffer"
)
EVERYTHING = reachability.EVERYTHING | frozenset(_TRAVERSALS.split())
"""Names, such as ``children`` or ``vars``, with which code may read any attribute of a module."""


def write_module(printer: Printer, module: torch.nn.Module, path: str | None) -> str:
    """Return an expression that recreates a module.

    ``path`` is the path to the module, such as ``.layers[0]``; None if it cannot be assigned.
    """
    if isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise UnwritableValue("a TorchScript module cannot be written as code")
    if isinstance(module, torch.fx.GraphModule):
        raise UnwritableValue("a torch.fx.GraphModule cannot be written as code")
    inner, around = _outer_calls(printer.outer, module, printer.program.store)
    with printer.within(outer=inner):
        text = _write_construction(printer, module, path)
    if module.training != inner.training and not reachability.user_classes(type(module)):
        printer.run_afterwards(f"{{0}}.training = {module.training}", path)
    _write_hooks(printer, module, path)
    return text + around


def _outer_calls(
    outer: Outer, module: torch.nn.Module, store: TensorStore | None
) -> tuple[Outer, str]:
    """Return calls, such as ``.eval()``, that set mode, dtype and device of a whole module.

    The first result is the state of the submodules after these calls; the second is the text of the
    calls. ``outer`` is the state that calls on an enclosing module already set.
    """
    text = ""
    flags = {inner.training for inner in module.modules()}
    if flags == {not outer.training}:
        outer = replace(outer, training=not outer.training)
        text += ".train()" if outer.training else ".eval()"
    parameters = list(module.parameters())
    if outer.grad and parameters and not any(one.requires_grad for one in parameters):
        outer = replace(outer, grad=False)
        text += ".requires_grad_(False)"
    states = [*parameters, *module.buffers()]
    targets = []
    devices = {one.device for one in states}
    if outer.device is None and len(devices) == 1:
        device = devices.pop()
        if device.type not in ("cpu", "meta"):
            outer = replace(outer, device=device)
            targets.append(f'"{device}"')
    dtypes = {one.dtype for one in states if one.is_floating_point() or one.is_complex()}
    # With a store, tensors keep the dtype in which they were saved.
    if outer.dtype is None and len(dtypes) == 1 and store is None:
        dtype = dtypes.pop()
        if dtype.is_floating_point and dtype != torch.float32:
            outer = replace(outer, dtype=dtype)
            targets.append(str(dtype))
    return outer, f"{text}.to({', '.join(targets)})" if targets else text


def _write_construction(printer: Printer, module: torch.nn.Module, path: str | None) -> str:
    kind = type(module)
    write = _CONTAINERS.get(kind)
    text = write(printer, module, path) if write is not None else None
    if text is None and reachability.is_library(kind):
        text = layers.write_constructor_call(printer, module, path)
        if text is None:
            raise UnwritableValue(
                f"a {kind.__module__}.{kind.__qualname__} cannot be written as code"
            )
    return _synthesize_module(printer, module, path) if text is None else text


# -- containers -------------------------------------------------------------------------------


def _has_only_children(module: torch.nn.Module) -> bool:
    """Whether a container has only children, without own parameters, buffers or attributes."""
    own = set(vars(module)) - INTERNAL - {"_size", "_keys"}
    buffers = any(one is not None for one in module._buffers.values())
    return not (own or buffers or module._parameters)


def _child_expressions(
    printer: Printer, module: torch.nn.Module, path: str | None
) -> list[str] | None:
    """Return expressions for the children of a container with numbered children.

    Return None if the children have other names.
    """
    names = list(module._modules)
    if names != [str(index) for index in range(len(names))]:
        return None
    return printer.items(list(module._modules.values()), path)


def _write_sequential(printer: Printer, module: Any, path: str | None) -> str | None:
    if not _has_only_children(module):
        return None
    texts = _child_expressions(printer, module, path)
    if texts is None:
        parts = []
        for key, child in module._modules.items():
            where = f"{path}.{key}" if path is not None and key.isidentifier() else None
            parts.append(f"{key!r}: {printer.expression(child, where)}")
        ordered = f"{printer.refer_to(collections)}.OrderedDict"
        return f"torch.nn.Sequential({ordered}({{{', '.join(parts)}}}))"
    return f"torch.nn.Sequential({spread_arguments(list_display(texts))})"


def _write_module_list(printer: Printer, module: Any, path: str | None) -> str | None:
    if not _has_only_children(module):
        return None
    texts = _child_expressions(printer, module, path)
    if texts is None:
        for name, child in module._modules.items():
            printer.run_afterwards(
                f"{{0}}.add_module({name!r}, {printer.expression(child, None)})", path
            )
    inner = list_display(texts) if texts else ""
    return f"torch.nn.ModuleList({inner})"


def _write_module_dict(printer: Printer, module: Any, path: str | None) -> str | None:
    if not _has_only_children(module):
        return None
    inner = printer.dict_display(module._modules, path) if module._modules else ""
    return f"torch.nn.ModuleDict({inner})"


def _write_parameter_list(printer: Printer, module: Any, path: str | None) -> str | None:
    inner = list_display(printer.items(list(module), path)) if len(module) else ""
    return f"torch.nn.ParameterList({inner})"


def _write_parameter_dict(printer: Printer, module: Any, path: str | None) -> str | None:
    inner = printer.dict_display(module, path) if len(module) else ""
    return f"torch.nn.ParameterDict({inner})"


_CONTAINERS: dict[type, Writer] = {
    torch.nn.Sequential: _write_sequential,
    torch.nn.ModuleList: _write_module_list,
    torch.nn.ModuleDict: _write_module_dict,
    torch.nn.ParameterList: _write_parameter_list,
    torch.nn.ParameterDict: _write_parameter_dict,
}


# -- the user's classes -----------------------------------------------------------------------


def _synthesize_module(printer: Printer, module: torch.nn.Module, path: str | None) -> str:
    kind = type(module)
    found = printer.program.written.reached_members(kind, printer.words | {"forward"})
    everything = bool(found.words & EVERYTHING)
    before = len(printer.after)
    bases = reachability.library_bases(kind)
    base = next(one for one in bases if issubclass(one, torch.nn.Module))
    first, done = _super_init_call(printer, module, base, path)

    statements = [first]
    with printer.within(words=found.words):
        for name, item in _remaining_attributes(module, done):
            if (
                not (everything or reachability.may_look_up(found.words, name))
                and name.isidentifier()
            ):
                continue
            text = _attribute_statement(printer, module, name, item, path)
            if text is not None:
                statements.append(text)
    if module.training != printer.outer.training:
        statements.append(f"self.training = {module.training}")
    statements += instances.take_own_statements(printer, before, path)
    return instances.synthesize_instance(printer, kind, found, statements, bases)


def _super_init_call(
    printer: Printer, module: torch.nn.Module, base: type, path: str | None
) -> tuple[str, frozenset[str]]:
    """Return the ``super().__init__`` call for the base class ``base`` of a module's class.

    Return also the names of the attributes that the call sets.
    """
    if base is torch.nn.Module:
        return "super().__init__()", frozenset()
    if base in (torch.nn.Sequential, torch.nn.ModuleList):
        count = sum(name.isdigit() for name in module._modules)
        if list(module._modules)[:count] == [str(index) for index in range(count)]:
            entries = list(module._modules.values())[:count]
            shown = list_display(printer.items(entries, path))
            inner = shown if base is torch.nn.ModuleList else spread_arguments(shown)
            return f"super().__init__({inner})", frozenset(map(str, range(count)))
    if base in _CONTAINERS:
        return "super().__init__()", frozenset({"_size", "_keys"})
    made = layers.super_init_call(printer, module, base, path)
    return made or ("torch.nn.Module.__init__(self)", frozenset())


def _remaining_attributes(
    module: torch.nn.Module, done: frozenset[str]
) -> list[tuple[str, object]]:
    """Return the names and values of attributes that the generated program must still set.

    Attributes in ``done`` are already set. The order is the order of creation, where it is known.
    """
    plain = {name: item for name, item in vars(module).items() if name not in INTERNAL}
    plain |= {
        name: item
        for name, item in instance_state(module).items()
        if name not in INTERNAL and name not in plain
    }
    own = {**plain, **module._parameters, **module._buffers, **module._modules}
    return [(name, item) for name, item in own.items() if name not in done]


def _attribute_statement(
    printer: Printer, module: torch.nn.Module, name: str, item: Any, path: str | None
) -> str | None:
    if name in module._parameters and item is None:
        return f"self.register_parameter({name!r}, None)"
    if name in module._buffers:
        late = ", persistent=False" if name in module._non_persistent_buffers_set else ""
        if item is None:
            return f"self.register_buffer({name!r}, None{late})"
        known = printer.place_of(item)
        if known is None:
            printer.mark_placed(item, None if path is None else f"{path}.{name}")
            return f"self.register_buffer({name!r}, {buffer_text(printer, item)}{late})"
    if name in module._modules and not name.isidentifier():
        return f"self.add_module({name!r}, {printer.expression(item, None)})"
    return instances.attribute_assignment(printer, type(module), name, item, path)


# -- hooks ------------------------------------------------------------------------------------

_HOOKS = (
    ("_forward_pre_hooks", "register_forward_pre_hook", "_forward_pre_hooks_with_kwargs"),
    ("_forward_hooks", "register_forward_hook", "_forward_hooks_with_kwargs"),
    ("_backward_pre_hooks", "register_full_backward_pre_hook", ""),
    ("_backward_hooks", "register_full_backward_hook", ""),
)


def _write_hooks(printer: Printer, module: torch.nn.Module, path: str | None) -> None:
    for holder, register, flags in _HOOKS:
        for key, hook in getattr(module, holder, {}).items():
            if getattr(hook, "__self__", None) is module and reachability.is_library(hook):
                continue  # lazy modules register this hook themselves
            with_kwargs = key in getattr(module, flags, {}) if flags else False
            flag = ", with_kwargs=True" if with_kwargs else ""
            try:
                text = printer.expression(hook, None)
            except UnwritableValue as error:
                printer.program.note(
                    f"a hook of {type(module).__name__} is left out: {error.reason}"
                )
                continue
            printer.run_afterwards(f"{{0}}.{register}({text}{flag})", path)
