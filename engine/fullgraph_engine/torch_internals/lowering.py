"""Compile with AOTAutograd and Inductor without building C++ code.

Inductor compiles a graph in two steps: it lowers the operators to kernels and writes their source,
then a C++ compiler builds the source. Nearly all errors of Inductor are raised in the first step,
which does not start a program.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

GraphBackend = Callable[..., Callable[..., Any]]
"""A backend of ``torch.compile``: it returns a function that executes the graph it is given."""


def lowering_backend() -> GraphBackend:
    """Return a backend that raises what AOTAutograd and Inductor raise while they compile.

    Its compiled graphs are executed by PyTorch's operators, after the decompositions and the
    partition into forward and backward graphs that Inductor uses. From the first call on, this
    process cannot build C++ code.

    See ``torch._inductor.compile_fx.compile_fx``, whose parameter ``inner_compile`` replaces the
    last step.
    """
    from torch._inductor import compile_fx

    _omit_builds()

    def lower(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Any:
        # Inductor changes the graph. Its constants must not be copied: the mode for fake tensors is
        # active here.
        executed = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
        compile_fx.compile_fx_inner(graph, inputs, **options)

        def execute(values: list[Any]) -> Any:
            given = list(values)
            values.clear()
            return executed(*given)

        # AOTAutograd then passes the inputs as one list, which the function may clear.
        execute._boxed_call = True  # type: ignore[attr-defined]
        return execute

    def backend(graph: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        return compile_fx.compile_fx(graph, inputs, inner_compile=lower)

    return backend


def _omit_builds() -> None:
    """Replace what starts a C++ compiler in Inductor: kernels, and tests of processor features."""
    from torch._inductor import async_compile, cpp_builder, cpu_vec_isa

    def no_kernel(*_: Any, **__: Any) -> Callable[..., None]:
        return lambda *_, **__: None

    builds: Any = async_compile.AsyncCompile
    builds.cpp = builds.cpp_pybinding = no_kernel
    features: Any = cpu_vec_isa
    features.valid_vec_isa_list = list
    compilers: Any = cpp_builder
    compilers.get_cpp_compiler = lambda: "c++"
