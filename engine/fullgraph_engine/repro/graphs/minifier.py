"""Make a graph smaller by torch's own strategies; every graph that they propose is a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...torch_internals.dynamo import mark_dynamic
from ...torch_internals.minifier import minifier
from ..candidate import Backend
from ..emit.unwritable import Unwritable
from ..inputs import Store, imports, loader, needed
from ..verify.oracle import here
from . import capture, comparison, emit


class _Caught(BaseException):
    """Carries a function and its inputs away from the call that would compile it."""


def minify(program: str, backend: Backend, shows: Callable[[str], bool]) -> None:
    """Propose programs for smaller graphs of a program's; the last one shown is the smallest.

    It executes the program, without its backend.
    """
    function, inputs, options = _caught(program, backend)
    if options.get("dynamic"):
        for value in inputs:
            for dim in range(value.dim() if isinstance(value, torch.Tensor) else 0):
                mark_dynamic(value, dim)
    found: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []
    backward = ".backward()" in program

    def told(graph: torch.fx.GraphModule, given: tuple[Any, ...]) -> None:
        found.append((graph, given))

    capture.watch(function, inputs, {}, told)
    settings = _settings(program)
    store = Store.of_process() if needed(program) else None
    for graph, given in found[:1]:
        own = {id(value) for value in given}

        def fails(
            smaller: torch.fx.GraphModule, values: Sequence[Any], own: set[int] = own
        ) -> bool:
            values = [value if id(value) in own else _as_input(value) for value in values]
            if backward and not emit.has_gradient(smaller):
                return False
            try:
                candidate = emit.candidate_of(
                    smaller,
                    values,
                    backend,
                    backward=backward,
                    settings=settings,
                    store=store,
                )
            except Unwritable:
                return False
            return shows(candidate.text)

        minifier(graph, given, fails, lambda *_: None, skip_sanity=True)


def _caught(program: str, backend: Backend) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    """What a program compiles, the inputs that it calls it with, and its options."""

    def compare(function: Any, *inputs: Any, **options: Any) -> None:
        raise _Caught(function, inputs, options)

    def compile(function: Any, **options: Any) -> Any:
        return lambda *inputs: compare(function, *inputs, **options)

    namespace = {
        "__name__": "__main__",
        "__file__": here(),
        comparison.NAME: compare,
        backend.spelled: None,
    }
    exec("\n".join([*imports(program), "import torch", loader(program)]), namespace)
    original, torch.compile = torch.compile, compile  # type: ignore[assignment]
    try:
        exec(program, namespace)
    except _Caught as caught:
        return caught.args
    finally:
        torch.compile = original
    raise LookupError("the program compiles nothing")


def _settings(program: str) -> list[str]:
    """The statements of a program that change torch's settings, with their imports."""
    return [
        line
        for line in program.split("\n")
        if line.startswith("import torch.") or (line.startswith("torch.") and ".config." in line)
    ]


def _as_input(value: Any) -> Any:
    """What was made by a part of the graph that is cut off comes from outside, as a leaf."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)
