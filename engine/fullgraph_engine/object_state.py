"""Access to values inside objects: attributes of instances, and closure cells of functions."""

from __future__ import annotations

import types
from collections.abc import Iterator


def instance_state(value: object) -> dict[str, object]:
    """Return the attributes of an instance, from its ``__dict__`` and its slots."""
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


def closure_contents(function: types.FunctionType) -> Iterator[object]:
    """Yield the contents of a function's closure cells; unassigned cells are skipped."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
