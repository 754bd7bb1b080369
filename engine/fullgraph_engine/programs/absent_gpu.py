"""Replacements for functions of ``torch.cuda``, for programs that run on fake CUDA tensors without
a GPU.

The functions answer as on a machine with one GPU of compute capability 8.0. Backward passes compute
nothing: each leaf gets a zero gradient of its shape. The replacements are never undone, so only a
process that runs one program may install them.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ..torch_internals import releases

_NAME = "Fake GPU of fullgraph"
_MEMORY = 80 << 30

_FAKES_WITHOUT_DEVICE = (2, 10)
"""First release of torch in which fake CUDA tensors work without a device, even if
``torch.cuda.device_count()`` is not 0.
"""

_LOOKS_FOR_DEVICE = ("is_available", "device_count")
"""Functions not replaced in older releases of torch. If they reported a GPU there, fake tensors
would look for a real device.
"""

_ANSWERS: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_name": _NAME,
    "get_device_capability": (8, 0),
    "is_bf16_supported": True,
    "is_tf32_supported": True,
    "mem_get_info": (_MEMORY, _MEMORY),
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "memory_reserved": 0,
    "max_memory_reserved": 0,
    "memory_stats": {},
    "memory_summary": "",
    "utilization": 0,
    "get_arch_list": ["sm_80"],
}
_SILENT = (
    *("_lazy_init", "init", "synchronize", "empty_cache", "set_device", "ipc_collect"),
    *("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats"),
    *("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"),
    *("set_per_process_memory_fraction", "set_sync_debug_mode"),
)


def install() -> None:
    """Replace functions of ``torch.cuda`` in this process so that it seems to have one GPU."""
    release = releases.parse_release(torch.__version__)
    for name, value in _ANSWERS.items():
        if name in _LOOKS_FOR_DEVICE and release < _FAKES_WITHOUT_DEVICE:
            continue
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, _answer_with(value))
    for name in _SILENT:
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, _answer_with(None))
    stand_ins: dict[str, Any] = {
        "get_rng_state": lambda *_args, **_kwargs: torch.get_rng_state(),
        "get_device_properties": lambda *_args, **_kwargs: _device_properties(),
        "Event": _Moment,
        "Stream": _Moment,
        "current_stream": _Moment,
        "stream": _Moment,
    }
    for name, stand_in in stand_ins.items():
        setattr(torch.cuda, name, stand_in)
    gradients: Any = torch.autograd
    gradients.backward, gradients.grad = _skip_backward, _zero_gradients
    tensor: Any = torch.Tensor
    tensor.backward = lambda self, *_args, **_kwargs: _skip_backward((self,))


def _answer_with(value: Any) -> Any:
    def answer(*_args: Any, **_kwargs: Any) -> Any:
        return value

    return answer


def _device_properties() -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=_NAME,
        major=8,
        minor=0,
        total_memory=_MEMORY,
        multi_processor_count=108,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        gcnArchName="",
    )


class _Moment:
    """A replacement for ``torch.cuda.Stream`` and ``Event``, whose work is always complete."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.cuda_stream = 0

    def __enter__(self) -> _Moment:
        return self

    def __exit__(self, *_raised: object) -> None:
        return None

    def elapsed_time(self, _end: Any) -> float:
        """Return the milliseconds between two events."""
        return 1.0

    def query(self) -> bool:
        """Return whether all work of the stream or event is done."""
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _answer_with(None)


def _skip_backward(tensors: Any, *_args: Any, **_kwargs: Any) -> None:
    """Replace ``Tensor.backward``: give each leaf that the tensors depend on a zero gradient of its
    shape."""
    roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    with torch.no_grad():
        for leaf in _graph_leaves(roots):
            leaf.grad = torch.empty_like(leaf)


def _zero_gradients(
    outputs: Any, inputs: Any, *_args: Any, **_kwargs: Any
) -> tuple[torch.Tensor, ...]:
    wanted = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    return tuple(torch.empty_like(one) for one in wanted)


def _graph_leaves(roots: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    waiting: list[Any] = [root.grad_fn for root in roots]
    yield from (root for root in roots if root.grad_fn is None and root.requires_grad)
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            yield variable
        following: Iterable[tuple[Any, int]] = node.next_functions
        waiting += [function for function, _ in following]
