"""Capture the graphs of a target, and write each as a program for a backend."""

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
from ..candidate import Backend, Candidate, Candidates, in_order
from ..emit.program import Draft
from ..emit.unwritable import Unwritable
from ..inputs import Store
from ..settings import settings
from ..verify.check import Check
from ..verify.finding_signature import FindingSignature, own_names
from . import capture, comparison, emit

_MOST_GRAPHS = 50


def extract(tracee: Tracee, wanted: Wanted) -> Candidates | str:
    """Candidates for what a backend does to a target, or why there are none.

    To be called with real tensors: a backend compiles for what it is given.
    """
    try:
        backend, before, imports, notes = _backend(wanted)
    except LookupError as error:
        return str(error.args[0])
    name = tracee.target.name
    # Numbers that are wrong may be so for some inputs alone.
    stores = Store.choices(always=wanted.data, if_needed=wanted.accuracy)
    graphs = _Graphs(backend, notes, stores)
    try:
        call = tracee.call()
    except Exception as error:
        return f"`{name}` cannot be called as its probe says: {error}"
    for wish in call.dynamic:
        dynamo.mark_dynamic(wish.tensor, wish.dim)
    raised = ""
    try:
        capture.watch(call.function, call.args, call.kwargs, graphs.add)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}".partition("\n")[0]
    if not graphs.programs:
        return _no_graphs(name, raised, graphs.left_out)
    if backend.accuracy:
        check = comparison.check_of(
            backend,
            before,
            imports,
            only_floating=wanted.only_floating,
            is_random=graphs.is_random,
        )
        title = f"`{backend.name}` gives wrong results for a graph of `{name}`"
        explanation = (
            "The compiled function's results, or their gradients, are further from those in double "
            "precision than those of the function as it is."
        )
    else:
        check = Check(f"an exception of {backend.name}", 'error != "None"', True, before, imports)
        title = f"`{backend.name}` fails on a graph of `{name}`"
        explanation = "The function runs as it is, and raises this when it is compiled."
    return Candidates(
        in_order(graphs.programs, data=wanted.data),
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


def _no_graphs(target: str, raised: str, left_out: list[str]) -> str:
    if left_out:
        return f"No graph of `{target}` can be written as a program: {left_out[0]}."
    if raised:
        return f"`{target}` raises before a graph of it is compiled: {raised}"
    return f"No graph is captured of `{target}`; look at its findings first."


class _Graphs:
    """Programs for the graphs of one call."""

    def __init__(
        self, backend: Backend, notes: tuple[str, ...], stores: tuple[Store | None, ...]
    ) -> None:
        self.programs: list[Candidate] = []
        self.left_out: list[str] = []
        self._backend, self._notes, self._stores = backend, notes, stores
        self._settings = (*settings(), *_inductor_settings(backend))
        self.is_random = False
        self._count = 0

    def add(self, graph: torch.fx.GraphModule, inputs: tuple[Any, ...]) -> None:
        self._count += 1
        if self._count > _MOST_GRAPHS:
            return
        self.is_random |= capture.is_random(graph)
        both = not self._backend.accuracy and emit.has_gradient(graph)
        for backward, store in itertools.product((False, True)[: 1 + both], self._stores):
            try:
                candidate = emit.candidate_of(
                    graph,
                    inputs,
                    self._backend,
                    backward=backward,
                    settings=self._settings,
                    store=store,
                )
            except Unwritable as error:
                self.left_out.append(f"graph {self._count}: {error.reason}")
                continue
            except Exception as error:  # objects of the user's, or a mistake of ours
                self.left_out.append(f"graph {self._count}: {type(error).__name__}: {error}")
                continue
            self.programs.append(
                Candidate(candidate.text, candidate.origin, (*candidate.notes, *self._notes))
            )


_Lines = tuple[str, ...]


def _backend(wanted: Wanted) -> tuple[Backend, _Lines, _Lines, _Lines]:
    """The backend, the lines that define it, their imports, and what a reader should know of them.

    Raises:
        LookupError: it cannot be used; why.
    """
    name = wanted.backend
    if name not in dynamo.list_backends(()):
        common = ", ".join(dynamo.list_backends())
        raise LookupError(
            f"There is no backend `{name}` once the file was executed; there are {common}. "
            "Register it in the file, or import what does."
        )
    function = backends.find_backend(name)
    if _is_installed(name, function):
        return Backend(name, f'"{name}"', wanted.accuracy), (), (), ()
    draft = Draft()
    try:
        spelled = draft.refer(function)
        text = draft.text([spelled]).rstrip().removesuffix(spelled)
    except Unwritable as error:
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
    """Whether a fresh Python knows it by its name: torch has it, or a package announces it."""
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
