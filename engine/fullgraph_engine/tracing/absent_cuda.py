"""Make fake CUDA tensors work on a torch without CUDA, and before torch 2.10 also without a GPU.

Under FakeTensorMode no kernel runs, so code with ``device="cuda"`` can be traced on any machine. A
CUDA build of torch 2.10 or later handles a missing GPU itself: it registers a device guard that
does nothing. The guard of older releases queries the missing driver. A CPU build does not have a
CUDA guard, and device-aware C++ code fails with "PyTorch is not linked with support for cuda
devices". This module takes the do-nothing guard that every build registers for the meta device, and
registers a copy for CUDA whose current device is ``cuda:0``.

``c10/core/impl/DeviceGuardImplInterface.h`` defines the layout. The registry is an exported array
of pointers, indexed by device type. The table of virtual functions begins with destructors (two or
none), then ``type``, ``exchangeDevice`` and ``getDevice``. :func:`install_cuda_guard` does not rely
on the number of destructors: it calls the entries to find ``type``.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_CUDA, _META = 1, 14
_SLOTS = 48
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_TYPE_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
_kept_alive: list[Any] = []
_requested = False


def is_needed() -> bool:
    """Whether fake CUDA tensors fail on the installed torch without :func:`install_cuda_guard`."""
    from ..torch_internals import fake_tensors

    return not fake_tensors.provides_cuda_guard()


def request_for_source(text: str) -> None:
    """Request a CUDA guard for later fake runs if ``text``, the source code that this process will
    run, mentions CUDA.

    The guard is not installed unconditionally. Autograd looks for a real accelerator once the guard
    exists, and code without CUDA must run as it does without this engine.
    """
    global _requested
    if "cuda" in text:
        _requested = True


def is_requested() -> bool:
    """Whether this process has called :func:`request_for_source` with a text that mentions CUDA."""
    return _requested


def install_cuda_guard() -> bool:
    """Make fake CUDA tensors work in this process; return False if that fails.

    The change lasts until the process ends, so call it only in a process that never computes on
    real devices.
    """
    import torch

    if _kept_alive or not is_needed():
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
    type_slot = _find_type_slot(meta, slots)
    if type_slot is None:
        return False

    # struct Device { DeviceType type; DeviceIndex index; } has two bytes and is returned in a
    # register.
    return_type = _TYPE_FUNCTION(lambda _self: _CUDA)
    return_device = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)(lambda _self: _CUDA)
    exchange_device = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p, ctypes.c_uint16)(
        lambda _self, _device: _CUDA
    )
    for offset, function in ((0, return_type), (1, exchange_device), (2, return_device)):
        slots[type_slot + offset] = ctypes.cast(function, ctypes.c_void_p).value
    guard = (ctypes.c_void_p * 2)(ctypes.addressof(slots), 0)
    _kept_alive.extend((slots, return_type, return_device, exchange_device, guard))
    registry[_CUDA] = ctypes.addressof(guard)
    return True


def _find_type_slot(guard: int, slots: Any) -> int | None:
    """Return the index of the virtual function ``type()`` in the guard's function table.

    The result is None if not found. The index is 0, or 2 if two destructors precede it. If entry 0
    is a destructor, calling it is harmless: the class does not have members.
    """
    for index in (0, 2):
        if slots[index] and _TYPE_FUNCTION(slots[index])(guard) == _META:
            return index
    return None
