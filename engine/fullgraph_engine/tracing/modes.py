"""Whether it can matter to Dynamo that a module is in training or in evaluation mode."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from .lines import mentions

_HAND_ON = (
    *(
        nn.Dropout,
        nn.Dropout1d,
        nn.Dropout2d,
        nn.Dropout3d,
        nn.AlphaDropout,
        nn.FeatureAlphaDropout,
    ),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    *(nn.RNN, nn.LSTM, nn.GRU, nn.RReLU),
)
"""Layers whose code only hands their mode on to an operator, which Dynamo puts into the graph
either way. ``BatchNorm`` also counts batches, in the graph as well; only an average over all of
them (``momentum=None``) needs the count as a number."""


def matter(function: Any, *, read: bool) -> bool:
    """Whether a trace of a module in its other mode could differ in more than operators.

    It cannot if no code asks for the mode. What a module does follows from the code of its class
    and of those of its submodules, all of which is searched for ``training``, and of functions
    that they call: of those ``read`` says whether Dynamo came across one outside torch that asks.
    A function of no class that Dynamo never entered is not seen. A module without the state that
    ``nn.Module.__init__`` makes cannot be called in any mode.
    """
    if not isinstance(function, nn.Module):
        return False
    try:
        modules = list(function.modules())
    except AttributeError:
        return False
    return read or any(map(_asks, modules))


def _asks(module: nn.Module) -> bool:
    kind = type(module)
    if kind not in _known:
        _known[kind] = any(_class_asks(one) for one in _own_classes(kind))
    return _known[kind] or (issubclass(kind, _HAND_ON) and getattr(module, "momentum", 0.0) is None)


_known: dict[type, bool] = {}


def _own_classes(kind: type) -> Iterator[type]:
    """A class and its bases, up to those that are known."""
    for one in kind.__mro__:
        if one in _HAND_ON:
            return
        if one not in (nn.Module, object):
            yield one


def _class_asks(kind: type) -> bool:
    return any(
        name in ("train", "eval") or any(mentions(code, "training") for code in _codes(value))
        for name, value in vars(kind).items()
    )


def _codes(value: Any) -> list[types.CodeType]:
    functions = [getattr(value, name, None) for name in ("__func__", "fget", "__wrapped__")]
    found = [getattr(each, "__code__", None) for each in (value, *functions)]
    return [code for code in found if isinstance(code, types.CodeType)]
