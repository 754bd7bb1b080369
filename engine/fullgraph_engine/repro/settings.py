"""Settings of torch that user code changed, written as statements of a program."""

from __future__ import annotations

import ast

from ..torch_internals import dynamo
from ..torch_internals.backends import functorch_config


def changed_settings() -> tuple[str, ...]:
    """Return assignment statements for the torch settings that user code changed."""
    found: list[str] = []
    for module in (dynamo.config, functorch_config()):
        for line in module.codegen_config().split("\n"):
            try:
                ast.parse(line)
            except SyntaxError:
                continue
            if line.startswith("torch.") and line not in _OURS and "unsafe_data_ptr" not in line:
                found.append(line)
    return tuple(found)


def remember_settings() -> None:
    """Remember the current settings of torch; call it before user code runs."""
    _OURS.update(changed_settings())


_OURS: set[str] = set()
