"""Smaller graphs that torch's minifier proposes, each written as a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...torch_internals.dynamo import mark_dynamic
from ...torch_internals.minifier import minifier
from ..candidate import Backend
from ..emit.unwritable import UnwritableValue
from ..inputs import TensorStore, loader_imports, loader_text, needed_files
from ..verify.oracle import script_path
from . import capture, comparison, emit


class _CaughtCall(BaseException):
    """Raised by the compiler that replaces the real one; carries the graph's function and its
    inputs.
    """


def propose_smaller_graphs(program: str, backend: Backend, shows: Callable[[str], bool]) -> None:
    """Let torch's minifier propose smaller graphs, written as programs, and pass them to ``shows``.

    ``shows`` returns whether a program still shows the failure. The last accepted program is the
    smallest. This function executes ``program``, but without its backend.
    """
    function, inputs, options = _catch_compile_call(program, backend)
    if options.get("dynamic"):
        for value in inputs:
            for dim in range(value.dim() if isinstance(value, torch.Tensor) else 0):
                mark_dynamic(value, dim)
    found: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []
    backward = ".backward()" in program

    def add_graph(graph: torch.fx.GraphModule, given: tuple[Any, ...]) -> None:
        found.append((graph, given))

    capture.capture_graphs(function, inputs, {}, add_graph)
    settings = _settings_lines(program)
    store = TensorStore.for_process() if needed_files(program) else None
    for graph, given in found[:1]:
        own = {id(value) for value in given}

        def fails(
            smaller: torch.fx.GraphModule, values: Sequence[Any], own: set[int] = own
        ) -> bool:
            values = [value if id(value) in own else _as_input(value) for value in values]
            if backward and not emit.has_gradient(smaller):
                return False
            try:
                candidate = emit.write_candidate(
                    smaller,
                    values,
                    backend,
                    backward=backward,
                    settings=settings,
                    store=store,
                )
            except UnwritableValue:
                return False
            return shows(candidate.text)

        minifier(graph, given, fails, lambda *_: None, skip_sanity=True)


def _catch_compile_call(
    program: str, backend: Backend
) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    """Execute a program up to its ``torch.compile`` call without compiling anything.

    Return the function that it compiles, its inputs, and its compile options.
    """

    def compare(function: Any, *inputs: Any, **options: Any) -> None:
        raise _CaughtCall(function, inputs, options)

    def compile(function: Any, **options: Any) -> Any:
        return lambda *inputs: compare(function, *inputs, **options)

    namespace = {
        "__name__": "__main__",
        "__file__": script_path(),
        comparison.NAME: compare,
        backend.spelled: None,
    }
    exec("\n".join([*loader_imports(program), "import torch", loader_text(program)]), namespace)
    original, torch.compile = torch.compile, compile  # type: ignore[assignment]
    try:
        exec(program, namespace)
    except _CaughtCall as caught:
        return caught.args
    finally:
        torch.compile = original
    raise LookupError("the program does not call torch.compile")


def _settings_lines(program: str) -> list[str]:
    """Return the statements of a program that change torch's settings, with their imports."""
    return [
        line
        for line in program.split("\n")
        if line.startswith("import torch.") or (line.startswith("torch.") and ".config." in line)
    ]


def _as_input(value: Any) -> Any:
    """Return a tensor without its autograd history, as a program would create it; return other
    values unchanged.
    """
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)
