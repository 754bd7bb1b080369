"""Objects of torch's classes, written as calls of their constructors.

Constructors of torch store most arguments as attributes of the same names. This module guesses a
constructor call from the attributes, and runs it on the meta device. It uses the call if the new
object equals the original; assignments remove the remaining differences. The ``repr`` of an object
is not used, because it often leaves arguments out.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from .printer import Printer
from .tensors import tensor
from .tensors.contents import is_fake, is_uninitialized
from .unwritable import UnwritableValue

_PLACEMENT = ("device", "dtype")

_INTERNAL_WORDS = (
    "training _parameters _buffers _modules _non_persistent_buffers_set _backward_pre_hooks "
    "_backward_hooks _is_full_backward_hook _forward_hooks _forward_hooks_with_kwargs "
    "_forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs "
    "_state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks "
    "_load_state_dict_post_hooks _compiled_call_impl _forward_module_hooks"
)
INTERNAL = frozenset(_INTERNAL_WORDS.split())
"""Attributes that every module has; the generated program never assigns them."""

_UNCOMPARED = frozenset({"_flat_weights", "_flat_weight_refs", "_parameters", "_buffers"})

_MISSING = object()


@dataclass
class ConstructorCall:
    """Positional and keyword arguments of a constructor call."""

    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)


def write_constructor_call(printer: Printer, value: Any, path: str | None = None) -> str | None:
    """Return a constructor call that recreates an object of a torch class.

    Return None if no guessed call gives an equal object. ``path`` is the path to the object, such
    as ``.layers[0]``; None if it cannot be assigned.
    """
    kind = type(value)
    if isinstance(value, torch.optim.Optimizer):
        return _write_optimizer(printer, value)
    call = _find_constructor_call(value, kind)
    if call is None:
        return None
    _write_differences(printer, value, call[1], path)
    return printer.call_text(printer.refer_to(kind), call[0].positional, call[0].named)


def super_init_call(
    printer: Printer, value: Any, kind: type, path: str | None
) -> tuple[str, frozenset[str]] | None:
    """Return a ``super().__init__`` call with arguments that recreate the attributes of ``value``.

    ``kind`` is the base class whose constructor is called. Return also the names of the attributes
    that the call sets. Return None if no guessed call recreates the attributes.
    """
    found = _find_constructor_call(value, kind)
    if found is None:
        return None
    call, twin = found
    _write_differences(printer, value, twin, path, additions=False)
    done = {*vars(twin), *twin._parameters, *twin._buffers, *twin._modules}
    return printer.call_text("super().__init__", call.positional, call.named), frozenset(done)


def _find_constructor_call(value: Any, kind: type) -> tuple[ConstructorCall, Any] | None:
    for call in _candidate_calls(value, kind):
        with _without_memory():
            try:
                made = kind(
                    *map(_copy_without_memory, call.positional),
                    **{name: _copy_without_memory(item) for name, item in call.named.items()},
                )
            except Exception:
                continue
        if _is_alike(value, made):
            return call, made
    return None


def _copy_without_memory(value: Any) -> Any:
    """Return a copy of a module on the meta device; return other values unchanged."""
    if isinstance(value, torch.nn.Module):
        found = _find_constructor_call(value, type(value))
        other = None if found is None else found[1]
        if other is None:
            raise UnwritableValue("")
        return other
    return value


@contextlib.contextmanager
def _without_memory() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)


# -- guesses of constructor arguments ---------------------------------------------------------


def _candidate_calls(value: Any, kind: type) -> Iterator[ConstructorCall]:
    """Yield guesses of the constructor call that created ``value``, shortest first.

    ``kind`` is the class whose constructor is called.
    """
    call = _call_by_names(value, kind)
    if call is None:
        return
    usual = {one.name: one.default for one in _constructor_parameters(kind)}
    single = {name: _collapse_equal(item) for name, item in call.named.items()}
    short = ConstructorCall(
        [_collapse_equal(item) for item in call.positional],
        {name: item for name, item in single.items() if not _is_equal(item, usual.get(name))},
    )
    # A default of None means that the constructor computes the value.
    computed = {name for name in short.named if name in usual and usual[name] is None}
    for left_out in (computed, *({name} for name in computed)):
        named = {name: item for name, item in short.named.items() if name not in left_out}
        yield ConstructorCall(short.positional, named)
    if short != call:
        yield short
    yield call


def _collapse_equal(item: Any) -> Any:
    """Return the number ``n`` for a tuple ``(n, n)`` of equal numbers, other values unchanged."""
    if type(item) is tuple and item and all(type(part) is int for part in item):
        return item[0] if len(set(item)) == 1 else item
    return item


def _call_by_names(value: Any, kind: type) -> ConstructorCall | None:
    """Guess a constructor call in which each parameter gets the attribute of the same name.

    Return None if an attribute is missing.
    """
    call = ConstructorCall()
    for parameter in _constructor_parameters(kind):
        if parameter.name in _PLACEMENT:
            continue
        item = _constructor_argument(value, parameter.name)
        if item is _MISSING:
            if parameter.default is inspect.Parameter.empty:
                return None
            continue
        if parameter.default is inspect.Parameter.empty:
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                call.named[parameter.name] = item
            else:
                call.positional.append(item)
        elif not _is_equal(item, parameter.default):
            call.named[parameter.name] = item
    return call


def _constructor_parameters(kind: type) -> list[inspect.Parameter]:
    for owner in kind.__mro__:
        init = vars(owner).get("__init__")
        if init is None:
            continue
        found = list(inspect.signature(init).parameters.values())[1:]
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        named = [one for one in found if one.kind not in variable]
        if named or not found:
            if issubclass(kind, torch.nn.RNN):
                named.append(inspect.Parameter("nonlinearity", _KEYWORD, default="tanh"))
            skipped = ("mode",) if issubclass(kind, torch.nn.RNNBase) else ()
            return [one for one in named if one.name not in skipped]
    return []


_KEYWORD = inspect.Parameter.KEYWORD_ONLY

_ELSEWHERE = {
    "bias": "in_proj_bias linear1.bias bias",
    "add_bias_kv": "bias_k",
    "encoder_layer": "layers.0",
    "decoder_layer": "layers.0",
    "num_encoder_layers": "encoder.num_layers",
    "num_decoder_layers": "decoder.num_layers",
    "d_model": "self_attn.embed_dim",
    "nhead": "self_attn.num_heads",
    "dim_feedforward": "linear1.out_features",
    "dropout": "dropout.p",
    "layer_norm_eps": "norm1.eps",
    "batch_first": "self_attn.batch_first",
}
"""Attributes that store a constructor argument under another name, by the parameter's name."""


def _constructor_argument(value: Any, name: str) -> Any:
    state = vars(value)
    if isinstance(value, torch.nn.Module):
        for path in _ELSEWHERE.get(name, "").split():
            for owner in (value, *_first_layer(value)):
                with contextlib.suppress(AttributeError):
                    found = operator.attrgetter(path)(owner)
                    is_flag = "bias" in name and not isinstance(found, bool)
                    return found is not None if is_flag else found
        for holder in (value._parameters, value._buffers, value._modules):
            if name in holder:
                return holder[name]
    if name in state:
        return state[name]
    return getattr(value, name, _MISSING)


def _first_layer(value: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the first layer of a ``torch.nn.Transformer`` as a list; an empty list for other
    modules.

    This layer stores arguments of the transformer's constructor as attributes.
    """
    return [value.encoder.layers[0]] if isinstance(value, torch.nn.Transformer) else []


def _write_optimizer(printer: Printer, value: torch.optim.Optimizer) -> str:
    if len(value.param_groups) == 1:
        params: list[Any] = value.param_groups[0]["params"]
    else:
        params = [{"params": group["params"], "lr": group["lr"]} for group in value.param_groups]
    usual = {one.name: one.default for one in _constructor_parameters(type(value))}
    named = {
        name: item
        for name, item in value.defaults.items()
        if name in usual and not _is_equal(item, usual[name])
    }
    return printer.call_text(printer.refer_to(type(value)), [params], named)


# -- comparison with the recreated object -----------------------------------------------------


def _plain_attributes(value: Any) -> dict[str, Any]:
    state = dict(getattr(value, "__dict__", {}))
    if isinstance(value, torch.nn.Module):
        return {
            name: item
            for name, item in state.items()
            if name not in INTERNAL and name not in _UNCOMPARED
        }
    return state


def _is_alike(value: Any, made: Any) -> bool:
    """Whether assignments can turn ``made``, the result of a guessed constructor call, into
    ``value``.
    """
    if isinstance(value, torch.nn.Module):
        if set(made._parameters) - set(value._parameters):
            return False
        if set(made._modules) - set(value._modules):
            return False
        for name, child in made._modules.items():
            other = value._modules[name]
            if (child is None) != (other is None):
                return False
            if child is not None and not (type(other) is type(child) and _is_alike(other, child)):
                return False
        for name, parameter in made._parameters.items():
            if not _same_shape(parameter, value._parameters[name]):
                return False
        for name, buffer in made._buffers.items():
            if name not in value._buffers or not _same_shape(buffer, value._buffers[name]):
                return False
        state, twin_state = _plain_attributes(value), _plain_attributes(made)
        return all(
            name in state and (name.startswith("__") or _is_equal(state[name], item))
            for name, item in twin_state.items()
        )
    state, twin_state = _plain_attributes(value), _plain_attributes(made)
    return state.keys() == twin_state.keys() and all(
        _is_equal(item, twin_state[name]) for name, item in state.items()
    )


def _same_shape(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is second
    if is_uninitialized(first):
        return is_uninitialized(second)
    if is_uninitialized(second):
        return False
    return bool(first.shape == second.shape)


def _is_equal(first: Any, second: Any) -> bool:
    """Whether two attributes are equal; tensors are compared only by shape and dtype."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, RemovableHandle):
        return True
    if isinstance(first, torch.Tensor):
        return bool(first.shape == second.shape) and first.dtype == second.dtype
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(_is_equal, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(
            _is_equal(item, second[name]) for name, item in first.items()
        )
    if isinstance(first, torch.nn.Module):
        return _is_alike(first, second)
    if isinstance(first, torch.Generator):
        return bool(first.device == second.device)
    try:
        return bool(first == second)
    except Exception:  # user objects may raise anything
        return False


def _write_differences(
    printer: Printer, value: Any, made: Any, path: str | None, *, additions: bool = True
) -> None:
    """Write assignments that turn the recreated module ``made`` into ``value``.

    ``path`` is the path to ``value``. With ``additions``, also add the attributes that ``made``
    lacks.
    """
    if not isinstance(value, torch.nn.Module):
        return
    _write_parameter_differences(printer, value, made, path)
    _write_buffer_differences(printer, value, made, path)
    _write_child_differences(printer, value, made, path)
    if additions:
        _write_additions(printer, value, made, path)


def _write_parameter_differences(
    printer: Printer, value: torch.nn.Module, made: torch.nn.Module, path: str | None
) -> None:
    outer = printer.outer
    for name, twin_item in made._parameters.items():
        item = value._parameters[name]
        where = None if path is None else f"{path}.{name}"
        known = printer.place_of(item) if item is not None else None
        if known is not None and where is not None and known != where:
            printer.run_afterwards("{0} = {1}", where, known)
            continue
        if item is not None:
            printer.mark_placed(item, where)
        if item is None or is_uninitialized(item):
            continue
        if type(item) is not type(twin_item) and not is_fake(item):
            printer.run_afterwards(f"{{0}} = {tensor.parameter_text(printer, item)}", where)
        elif not _same_dtype(printer, item, twin_item):
            printer.run_afterwards(f"{{0}}.data = {{0}}.data.to({item.dtype})", where)
        if item.requires_grad != (outer.grad and item.is_floating_point()):
            printer.run_afterwards(f"{{0}}.requires_grad_({item.requires_grad})", where)
        _fill_contents(printer, item, where)


def _write_buffer_differences(
    printer: Printer, value: torch.nn.Module, made: torch.nn.Module, path: str | None
) -> None:
    for name, twin_item in made._buffers.items():
        item = value._buffers[name]
        where = None if path is None else f"{path}.{name}"
        if item is not None:
            printer.mark_placed(item, where)
            if not _same_dtype(printer, item, twin_item):
                printer.run_afterwards(f"{{0}} = {{0}}.to({item.dtype})", where)
            _fill_contents(printer, item, where)


def _fill_contents(printer: Printer, item: torch.Tensor, where: str | None) -> None:
    """Write a statement that loads the saved contents of a weight.

    ``item`` is the weight, which a constructor has created, and ``where`` is the path to it. Write
    nothing if the generated program does not store tensor data.
    """
    if printer.program.store is None:
        return
    if where is None:
        printer.program.note(
            "some weights of a module are random, because the script cannot refer to the module"
        )
        return
    text = tensor.refill_statement(printer, item)
    if text:
        printer.run_afterwards(text, where)


def _same_dtype(printer: Printer, item: torch.Tensor, made: torch.Tensor | None) -> bool:
    return made is not None and printer.outer.creation_dtype(item.dtype) == made.dtype


def _write_child_differences(
    printer: Printer, value: torch.nn.Module, made: torch.nn.Module, path: str | None
) -> None:
    for name, twin_child in made._modules.items():
        child, where = value._modules[name], _child_path(path, name)
        if child is None or twin_child is None:
            continue
        printer.mark_placed(child, where)
        _write_differences(printer, child, twin_child, where)
        if child.training != printer.outer.training:
            printer.run_afterwards(f"{{0}}.training = {child.training}", where)


def _child_path(path: str | None, name: str) -> str | None:
    if path is not None and name.isdigit():
        return f"{path}[{name}]"
    return f"{path}.{name}" if path is not None and name.isidentifier() else None


def _write_additions(
    printer: Printer, value: torch.nn.Module, made: torch.nn.Module, path: str | None
) -> None:
    """Write assignments for buffers, parameters and submodules that user code added to a torch
    module.

    ``made`` is a new module of the same class, which lacks them.
    """
    for name, item in value._buffers.items():
        if name not in made._buffers:
            late = ", persistent=False" if name in value._non_persistent_buffers_set else ""
            text = "None" if item is None else tensor.buffer_text(printer, item)
            printer.run_afterwards(f"{{0}}.register_buffer({name!r}, {text}{late})", path)
    added: dict[str, object] = {
        **{name: one for name, one in value._parameters.items() if name not in made._parameters},
        **{name: one for name, one in value._modules.items() if name not in made._modules},
    }
    twin_state = _plain_attributes(made)
    for name, item in _plain_attributes(value).items():
        if name not in twin_state and name in printer.words:
            added[name] = item
    for name, addition in added.items():
        where = _child_path(path, name)
        printer.run_afterwards(f"{{0}} = {printer.expression(addition, where)}", where)
