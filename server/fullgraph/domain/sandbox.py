"""Describe in words how far the sandbox isolates user code."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph_engine.protocol.sandbox import SandboxLevel


def level_line(level: SandboxLevel) -> str:
    """Describe in one line how far the sandbox isolates user code, for the status display.

    Empty until the engine has reported which of the sandbox's layers work.
    """
    layers = level.layers
    if not layers:
        return ""
    holding = sum(layer.holds for layer in layers)
    partly = sum(layer.partly and bool(layer.lack) for layer in layers)
    if holding == len(layers) and not partly:
        return "Sandbox active"
    count = f"{holding} of {len(layers)} layers active"
    return f"Sandbox: {count}" + (f", {partly} of them in part" if partly else "")


def layer_lines(level: SandboxLevel) -> Iterator[str]:
    """Yield a line for each layer of the sandbox: whether it is active, partly active or missing,
    and which protection is missing."""
    for layer in level.layers:
        word = "active" if not layer.lack else "active in part" if layer.holds else "missing"
        yield f"{layer.name}: {word}" + (f" ({layer.lack})" if layer.lack else "")
