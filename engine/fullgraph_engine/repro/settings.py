"""Settings of torch that user code has changed, as statements of a program."""

from __future__ import annotations

import ast

from ..torch_internals import dynamo
from ..torch_internals.backends import functorch_config


def settings() -> tuple[str, ...]:
    """Statements for those of torch's settings that user code has changed."""
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
    """Call before user code: what is set by then is nobody's choice."""
    _OURS.update(settings())


_OURS: set[str] = set()
