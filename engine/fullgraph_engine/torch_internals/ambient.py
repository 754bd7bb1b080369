"""Read the state that a program has set in Dynamo, without importing torch."""

from __future__ import annotations

import sys
from typing import Any

_MARKS = {
    "mark_dynamic": "_dynamo_dynamic_indices",
    "maybe_mark_dynamic": "_dynamo_weak_dynamic_indices",
    "mark_unbacked": "_dynamo_unbacked_indices",
    "mark_static": "_dynamo_static_indices",
}
"""Attributes of a tensor that hold its marked dimensions, by the name of the function that marks
them."""

_UNSAID = frozenset({"disable"})
"""Settings of Dynamo left out of recordings, because ``fullgraph record`` itself changes them."""


def marked_dimensions(tensor: Any) -> dict[str, tuple[int, ...]]:
    """Return the marked dimensions of a tensor, by the name of the function that marked them."""
    found = {name: getattr(tensor, attribute, None) for name, attribute in _MARKS.items()}
    return {name: tuple(sorted(dims)) for name, dims in found.items() if dims}


def stance() -> str:
    """Return the stance set by ``torch.compiler.set_stance``.

    The result is empty for the default one, or if it is unknown.
    """
    found = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    name = str(getattr(found, "stance", ""))
    return "" if name == "default" else name


def changed_settings() -> dict[str, bool | int | float | str | None]:
    """Return the settings of ``torch._dynamo.config`` that differ from their default and have plain
    values."""
    config: Any = sys.modules.get("torch._dynamo.config")
    is_default = getattr(config, "_is_default", None)
    if is_default is None:
        return {}
    return {
        name: value
        for name, value in config.get_config_copy().items()
        if name not in _UNSAID
        and "." not in name
        and (value is None or type(value) in (bool, int, float, str))
        and not is_default(name)
    }
