"""Fake CUDA tensors on a torch that was built without CUDA, and on an old one without a GPU.

Under FakeTensorMode no kernel runs, so ``device="cuda"`` could be traced on any machine. On a CUDA
build without a GPU torch arranges that itself since 2.10: it registers a device guard that does
nothing. Before, the guard asks the driver that is not there. A CPU build has no CUDA guard at all,
and device-aware C++ code fails with "PyTorch is not linked with support for cuda devices". Here the
do-nothing guard that every build registers for the meta device is registered for CUDA as well, with
the one answer changed that matters: the current device is ``cuda:0``.

``c10/core/impl/DeviceGuardImplInterface.h`` is the source of the layout: the registry is an
exported array of pointers by device type, and the virtual functions begin with the (two or no)
destructors and ``type``, ``exchangeDevice``, ``getDevice``. Instead of trusting that order,
:func:`pretend` looks for the entries that answer like them, and tests the result.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_CUDA, _META = 1, 14
_SLOTS = 48
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_ANSWER_TYPE = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
_keep: list[Any] = []
_wanted = False


def is_needed() -> bool:
    """Whether fake CUDA tensors would not work here as they are."""
    from ..torch_internals import fake_tensors

    return not fake_tensors.provides_cuda_guard()


def want_for(text: str) -> None:
    """If the code of this process speaks of CUDA, fake runs shall :func:`pretend` to have it.

    Asked for and not always done, because autograd looks for a real accelerator once the guard is
    there, and code without CUDA shall run exactly as without us.
    """
    global _wanted
    if "cuda" in text:
        _wanted = True


def is_wanted() -> bool:
    """Whether :func:`want_for` was called with such a text."""
    return _wanted


def pretend() -> bool:
    """Make fake CUDA tensors work in this process; False where that cannot be done.

    Never undone: only a process that will not compute on real devices may call it.
    """
    import torch

    if _keep or not is_needed():
        return True
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        c10 = ctypes.CDLL(str(library))
        registry = (ctypes.c_void_p * (_META + 1)).in_dll(c10, _REGISTRY)
    except (OSError, ValueError):
        return False
    meta = registry[_META]
    if not meta:
        return False
    table = ctypes.cast(ctypes.c_void_p(meta), ctypes.POINTER(ctypes.c_void_p))[0]
    if not table:
        return False
    slots = (ctypes.c_void_p * _SLOTS)()
    ctypes.memmove(slots, table, ctypes.sizeof(slots))
    first = _type_slot(meta, slots)
    if first is None:
        return False

    # struct Device { DeviceType type; DeviceIndex index; }: two bytes, returned in a register.
    answer_type = _ANSWER_TYPE(lambda _self: _CUDA)
    answer_device = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)(lambda _self: _CUDA)
    exchange = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p, ctypes.c_uint16)(
        lambda _self, _device: _CUDA
    )
    for offset, function in ((0, answer_type), (1, exchange), (2, answer_device)):
        slots[first + offset] = ctypes.cast(function, ctypes.c_void_p).value
    guard = (ctypes.c_void_p * 2)(ctypes.addressof(slots), 0)
    _keep.extend((slots, answer_type, answer_device, exchange, guard))
    registry[_CUDA] = ctypes.addressof(guard)
    return True


def _type_slot(guard: int, slots: Any) -> int | None:
    """The index of ``type()``: 0, or 2 behind the destructors where those are declared first.

    Called on the wrong entry at 0 it is a complete-object destructor of a class without members,
    which does nothing.
    """
    for index in (0, 2):
        if slots[index] and _ANSWER_TYPE(slots[index])(guard) == _META:
            return index
    return None
