"""Compute the shapes of recurrent layers on fake tensors without running their time steps.

``aten::lstm`` and its siblings are composite operators. Under a fake mode their C++ code runs each
step and requests the shapes of a dozen operators from Python: a six-layer GRU over 512 steps takes
a minute. Its result shapes follow from its arguments. Dynamo does not trace these layers by default
but breaks at them, so only eager code of a run gets here.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_internals import dynamo
from .tensors import RunTensorMode

_LAYERS = ("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
_KEYS = ("AutogradCPU", "AutogradCUDA")
_library: torch.library.Library | None = None


def skip_time_steps(mode: RunTensorMode) -> None:
    """Make recurrent layers compute only shapes for tensors of ``mode``, once per process."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("aten", "IMPL")
    for name in _LAYERS:
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        for key in _KEYS:
            _library.impl(name, _make_kernel(operator, mode), key, allow_override=True)


def _make_kernel(operator: Any, mode: RunTensorMode) -> Any:
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
        if not (mode.is_our_fake(data) and _has_valid_dimensions(data, hidden)):
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
        # Add an element of the input and of a parameter, so that the results require gradients
        # exactly if the layer's results would.
        link = parameters[0].reshape(-1)[0]
        out = data.new_empty((*data.shape[:2], width)) + link + data.reshape(-1)[0]
        finals = [state.new_empty(state.shape) + link for state in states]
        return (out, *finals)

    # Disable Dynamo for this function, because Dynamo is active even while eager code between
    # graphs runs.
    return dynamo.disable(layer)


def _has_valid_dimensions(data: Any, hidden: Any) -> bool:
    """Whether a recurrent layer accepts the dimensions of its input ``data`` and of its states.

    If not, the replacement calls PyTorch's operator, which raises the right error.
    """
    first = hidden[0] if isinstance(hidden, (list, tuple)) else hidden
    return bool(data.dim() == 3 and first.dim() == 3 and data.numel() > 0)
