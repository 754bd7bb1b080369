"""What values hold besides what they are: attributes of instances, and cells of functions."""

from __future__ import annotations

import types
from collections.abc import Iterator


def state_of(value: object) -> dict[str, object]:
    """The attributes of an instance, from ``__dict__`` and slots."""
    state = dict(getattr(value, "__dict__", {}))
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            mangled = name
            if name.startswith("__") and not name.endswith("__"):
                mangled = f"_{owner.__name__.lstrip('_')}{name}"
            try:
                state[mangled] = object.__getattribute__(value, mangled)
            except AttributeError:
                continue
    return state


def cells_of(function: types.FunctionType) -> Iterator[object]:
    """What the cells of a closure hold."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet filled
            continue
