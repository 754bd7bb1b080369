"""The setting ``effort``, which sets the defaults of settings that decide how much a check does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fullgraph.session.settings import Effort, Resolved, Settings

_DEFAULTS: Mapping[Effort, Mapping[str, Any]] = {
    "quick": {
        "trace_nested": False,
        "try_dynamic": False,
        "try_paths": False,
        "search_seconds": 1.0,
        "file_timeout": 30.0,
        "timeout": 20.0,
    },
    "normal": {"file_timeout": 0.0},
    "thorough": {"file_timeout": 0.0},
}
"""Defaults by effort, by the field of :class:`Settings`; other settings keep their own default."""


def apply_effort(resolved: Resolved) -> Resolved:
    """Return the settings of a check, in which unset settings have their default by effort."""
    set_fields = {name.replace("-", "_") for name in resolved.origins}
    effort = resolved.settings.effort
    changes = {k: value for k, value in _DEFAULTS[effort].items() if k not in set_fields}
    origins = {**{name.replace("_", "-"): f"effort {effort}" for name in changes}}
    return dataclasses.replace(
        resolved,
        settings=dataclasses.replace(resolved.settings, **changes),
        origins={**resolved.origins, **origins},
    )


def wants_forecast(settings: Settings, option: bool | None) -> bool:
    """Whether a check predicts recompilations: by its option ``--forecast`` or
    ``--no-forecast``, or, without one (None), if the effort is thorough.
    """
    return settings.effort == "thorough" if option is None else option
