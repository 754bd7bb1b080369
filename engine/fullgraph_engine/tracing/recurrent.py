"""Recurrent layers on fake tensors, without their time steps.

``aten::lstm`` and its siblings are composite: under a fake mode their C++ code runs step by step,
and every step asks Python for the shapes of a dozen operators. A six-layer GRU over 512 steps
takes a minute to say what its arguments say at once. Dynamo does not trace into these layers by
default (it breaks at them), so only the eager code of a run comes here.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_internals import dynamo
from .tensors import RunTensorMode

_LAYERS = ("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
_KEYS = ("AutogradCPU", "AutogradCUDA")
_library: torch.library.Library | None = None


def shorten(mode: RunTensorMode) -> None:
    """Let recurrent layers on tensors of ``mode`` compute shapes only; once per process."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("aten", "IMPL")
    for name in _LAYERS:
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        for key in _KEYS:
            _library.impl(name, _kernel(operator, mode), key, allow_override=True)


def _kernel(operator: Any, mode: RunTensorMode) -> Any:
    def layer(
        data: Any,
        hidden: Any,
        parameters: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        if not (mode.is_our_fake(data) and _fits(data, hidden)):
            return operator.decompose(
                data,
                hidden,
                parameters,
                has_biases,
                num_layers,
                dropout,
                train,
                bidirectional,
                batch_first,
            )
        states = list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        # One element of a parameter, so that results require grad exactly when the layer's would.
        link = parameters[0].reshape(-1)[0]
        out = data.new_empty((*data.shape[:2], width)) + link + data.reshape(-1)[0]
        finals = [state.new_empty(state.shape) + link for state in states]
        return (out, *finals)

    # Dynamo is on while eager code between graphs runs, and must not see this as the user's.
    return dynamo.disable(layer)


def _fits(data: Any, hidden: Any) -> bool:
    """Whether the arguments are what the layer takes; if not, the real code shall complain."""
    first = hidden[0] if isinstance(hidden, (list, tuple)) else hidden
    return bool(data.dim() == 3 and first.dim() == 3 and data.numel() > 0)
