"""Decide whether a module's training or evaluation mode can change what Dynamo traces."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from .lines import mentions_name

_PASS_MODE_ON = (
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
"""Layers that only pass their mode to an operator, which is in the graph in both modes.

``BatchNorm`` also counts batches, in the graph as well. Only an average over all batches
(``momentum=None``) needs the count as a Python number.
"""


def can_mode_matter(function: Any, *, mode_read_elsewhere: bool) -> bool:
    """Whether tracing a module in the other mode (training or evaluation) could change more than
    operators.

    The mode cannot matter if the code never reads it. The function searches the code of the
    module's class and of its submodules' classes for ``training``. ``mode_read_elsewhere`` states
    whether Dynamo traced a function outside torch that reads the mode. A function outside these
    classes that Dynamo never traced is not considered. A module without the state of
    ``nn.Module.__init__`` cannot be called in any mode.
    """
    if not isinstance(function, nn.Module):
        return False
    try:
        modules = list(function.modules())
    except AttributeError:
        return False
    return mode_read_elsewhere or any(map(_reads_mode, modules))


def _reads_mode(module: nn.Module) -> bool:
    kind = type(module)
    if kind not in _reads_mode_by_class:
        _reads_mode_by_class[kind] = any(_class_reads_mode(base) for base in _own_classes(kind))
    return _reads_mode_by_class[kind] or (
        issubclass(kind, _PASS_MODE_ON) and getattr(module, "momentum", 0.0) is None
    )


_reads_mode_by_class: dict[type, bool] = {}


def _own_classes(kind: type) -> Iterator[type]:
    """Yield a class and its bases, up to the first layer that only passes its mode to an operator.

    These layers are listed in ``_PASS_MODE_ON``.
    """
    for base in kind.__mro__:
        if base in _PASS_MODE_ON:
            return
        if base not in (nn.Module, object):
            yield base


def _class_reads_mode(kind: type) -> bool:
    return any(
        name in ("train", "eval")
        or any(mentions_name(code, "training") for code in _code_objects(value))
        for name, value in vars(kind).items()
    )


def _code_objects(value: Any) -> list[types.CodeType]:
    functions = [getattr(value, name, None) for name in ("__func__", "fget", "__wrapped__")]
    found = [getattr(function, "__code__", None) for function in (value, *functions)]
    return [code for code in found if isinstance(code, types.CodeType)]
