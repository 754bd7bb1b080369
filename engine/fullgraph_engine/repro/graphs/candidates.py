"""Capture the graphs of a function or module, and write each as a program for a backend."""

from __future__ import annotations

import ast
import itertools
import sys
from types import FunctionType
from typing import Any

import torch

from ...protocol import Wanted
from ...targets import Tracee
from ...torch_internals import backends, dynamo
from ..candidate import Backend, Candidates, ReproCandidate, sort_candidates
from ..emit.program import ProgramDraft
from ..emit.unwritable import UnwritableValue
from ..inputs import TensorStore
from ..settings import changed_settings
from ..verify.check import ScriptCheck
from ..verify.finding_signature import FindingSignature, own_names
from . import capture, comparison, emit

_MOST_GRAPHS = 50


def extract_graphs(tracee: Tracee, wanted: Wanted) -> Candidates | str:
    """Capture the graphs that Dynamo makes of a function or module; write each as a program.

    The programs may show the failure ``wanted`` of a backend. Return a message for the user if
    there are none. The tensors must be real, because the backend compiles for them.
    """
    try:
        backend, before, imports, notes = _describe_backend(wanted)
    except LookupError as error:
        return str(error.args[0])
    name = tracee.target.name
    # Wrong numbers may appear only for some inputs.
    stores = TensorStore.choices(always=wanted.data, if_needed=wanted.accuracy)
    graphs = _Graphs(backend, notes, stores)
    try:
        call = tracee.call()
    except Exception as error:
        return f"`{name}` cannot be called with the inputs of its probe: {error}"
    for request in call.dynamic:
        dynamo.mark_dynamic(request.tensor, request.dim)
    raised = ""
    try:
        capture.capture_graphs(call.function, call.args, call.kwargs, graphs.add_graph)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}".partition("\n")[0]
    if not graphs.programs:
        return _no_graphs_message(name, raised, graphs.left_out)
    if backend.accuracy:
        check = comparison.comparison_check(
            backend,
            before,
            imports,
            only_floating=wanted.only_floating,
            is_random=graphs.is_random,
        )
        title = f"`{backend.name}` gives wrong results for a graph of `{name}`"
        explanation = (
            "Compared with a run in double precision, the results or gradients of the compiled "
            "function are less exact than those of the uncompiled function."
        )
    else:
        check = ScriptCheck(
            f"an exception of {backend.name}", 'error != "None"', True, before, imports
        )
        title = f"`{backend.name}` fails on a graph of `{name}`"
        explanation = "The function runs uncompiled, but raises this when it is compiled."
    return Candidates(
        sort_candidates(graphs.programs, data=wanted.data),
        FindingSignature("backend", "", (), "", ""),
        check,
        tuple(sorted(own_names(tracee.text))),
        title,
        explanation,
        f"target `{name}`",
        left_out=tuple(graphs.left_out),
        backend=backend,
        data=wanted.data,
    )


def _no_graphs_message(target: str, raised: str, left_out: list[str]) -> str:
    if left_out:
        return f"No graph of `{target}` can be written as a program: {left_out[0]}."
    if raised:
        return f"`{target}` raises before a graph of it is compiled: {raised}"
    return f"No graph of `{target}` was captured; see its findings for the reason."


class _Graphs:
    """A collector of the graphs that Dynamo captures in one call, each written as a program."""

    def __init__(
        self, backend: Backend, notes: tuple[str, ...], stores: tuple[TensorStore | None, ...]
    ) -> None:
        self.programs: list[ReproCandidate] = []
        self.left_out: list[str] = []
        self._backend, self._notes, self._stores = backend, notes, stores
        self._settings = (*changed_settings(), *_inductor_settings(backend))
        self.is_random = False
        self._count = 0

    def add_graph(self, graph: torch.fx.GraphModule, inputs: tuple[Any, ...]) -> None:
        self._count += 1
        if self._count > _MOST_GRAPHS:
            return
        self.is_random |= capture.is_random(graph)
        both = not self._backend.accuracy and emit.has_gradient(graph)
        for backward, store in itertools.product((False, True)[: 1 + both], self._stores):
            try:
                candidate = emit.write_candidate(
                    graph,
                    inputs,
                    self._backend,
                    backward=backward,
                    settings=self._settings,
                    store=store,
                )
            except UnwritableValue as error:
                self.left_out.append(f"graph {self._count}: {error.reason}")
                continue
            except Exception as error:
                # User objects may raise anything, and this code may have bugs.
                self.left_out.append(f"graph {self._count}: {type(error).__name__}: {error}")
                continue
            self.programs.append(
                ReproCandidate(candidate.text, candidate.origin, (*candidate.notes, *self._notes))
            )


_Lines = tuple[str, ...]


def _describe_backend(wanted: Wanted) -> tuple[Backend, _Lines, _Lines, _Lines]:
    """Return the requested backend, and three groups of source lines for programs that use it.

    The groups are the backend's definition, the imports of the definition, and notes for the
    reader.

    Raises:
        LookupError: The backend cannot be used; the message says why.
    """
    name = wanted.backend
    if name not in dynamo.list_backends(()):
        common = ", ".join(dynamo.list_backends())
        raise LookupError(
            f"torch has no backend `{name}` after the file was executed; it has only {common}. "
            "Register it in the file, or import the module that registers it."
        )
    function = backends.find_backend(name)
    if _is_installed(name, function):
        return Backend(name, f'"{name}"', wanted.accuracy), (), (), ()
    draft = ProgramDraft()
    try:
        spelled = draft.refer_to(function)
        text = draft.text([spelled]).rstrip().removesuffix(spelled)
    except UnwritableValue as error:
        raise LookupError(
            f"The backend `{name}` cannot be written into a script: {error.reason}. Define it as a "
            "plain function at the top level of a module."
        ) from None
    imports, lines = [], text.rstrip("\n").split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith(("import ", "from "))):
        imports.append(lines.pop(0))
    imports = [line for line in imports if line.strip() and line != "import torch"]
    backend = Backend(name, spelled, wanted.accuracy)
    return backend, ("", *lines, ""), tuple(imports), tuple(draft.notes)


def _inductor_settings(backend: Backend) -> list[str]:
    if backend.name != "inductor":
        return []
    found = []
    for line in backends.inductor_config().codegen_config().split("\n"):
        try:
            ast.parse(line)
        except SyntaxError:
            continue
        if line.startswith("torch."):
            found.append(line)
    return ["import torch._inductor.config", *found] if found else []


def _is_installed(name: str, function: Any) -> bool:
    """Whether a fresh Python finds the backend by name, in torch or in an installed package."""
    announced = backends.REGISTERED_BACKENDS.get() or {}
    if announced.get(name) is not None:
        return True
    if (getattr(function, "__module__", None) or "").startswith("torch."):
        kind = type(function)
        if isinstance(function, (FunctionType, type)) or not kind.__module__.startswith("torch."):
            return True
    return any(
        value is function
        for place, module in list(sys.modules.items())
        if place.startswith("torch._dynamo.")
        for value in vars(module).values()
    )
