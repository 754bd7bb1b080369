"""Record the values that a program computes; a changed program must compute equal values."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ..behavior.facts import (
    CallFact,
    FactCollector,
    MemoryOwners,
    TensorData,
    tensor_digest,
)
from ..behavior.gradients import gradients_of_outputs
from ..protocol import Aspect, ObservedValue
from ..targets.probes import unwrap_compiled
from ..torch_internals.regions import CompiledCall
from ..torch_internals.trees import pytree
from .regions import region_name

MOST_CALLS = 200
"""Maximum number of calls of compiled functions whose results are recorded."""
_MOST_VALUES = 4_000
_MOST_GRADIENTS = 8
"""Maximum number of calls of one compiled function whose gradients are recorded."""
_SAMPLE = 64
"""Maximum number of elements recorded of one tensor."""


class ProgramValues:
    """The values that a program computes, in order: results and gradients of the calls of compiled
    functions, and the state at the end."""

    def __init__(self) -> None:
        self.found: list[ObservedValue] = []
        self._calls = 0
        self._numbers: dict[str, int] = {}
        self._further: set[str] = set()
        self._samples: dict[str, tuple[float, ...]] = {}

    def add_result(self, name: str, call: CompiledCall, result: Any) -> None:
        """Record the result of a call of the compiled function ``name``, and its gradients."""
        if self._calls >= MOST_CALLS:
            return
        self._calls += 1
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        path = f"result {number} of {name}"
        tensors = self._collect("result", path, result)
        if number <= _MOST_GRADIENTS:
            gradients = input_gradients(call, tensors)
            self._collect("gradient", f"gradients of {path}", gradients)

    def add_further(self, name: str, call: CompiledCall, outcome: list[Any] | Exception) -> None:
        """Record the outcome of a call that the program itself did not make: its tensors, numbers
        and gradients, or the type of its exception. Of several calls with equal arguments, only the
        first is recorded."""
        arguments = ProgramValues()
        arguments._collect("input", name, (call.args, call.kwargs))
        digest = hashlib.blake2b(repr(arguments.found).encode(), digest_size=8).hexdigest()
        if digest in self._further:
            return
        self._further.add(digest)
        first = len(self.found)
        path = f"result of a further call of {name}"
        if isinstance(outcome, Exception):
            self.found.append(ObservedValue("outcome", path, type(outcome).__name__))
        else:
            self._collect("result", path, outcome)
        self.found[first:] = [replace(one, call=digest) for one in self.found[first:]]

    def add_state(self, namespace: Mapping[str, Any]) -> None:
        """Record the values of a program's global variables at its end.

        Functions, classes and imported modules are left out.
        """
        for name, value in list(namespace.items()):
            if callable(value):
                value = unwrap_compiled(value)
            plain = isinstance(value, torch.nn.Module) or not callable(value)
            if name.startswith("__") or isinstance(value, types.ModuleType) or not plain:
                continue
            self._collect("state", name, value)

    def _collect(self, aspect: Aspect, path: str, value: Any) -> list[torch.Tensor]:
        """Record a value and everything in it; return its tensors."""
        if len(self.found) >= _MOST_VALUES:
            return []
        collector = FactCollector(aspect, self._keep, MemoryOwners(), "__main__")
        collector.collect_global(path, value)
        for fact in collector.facts:
            # Ignore which results share memory, because the compiler decides that.
            if fact.aspect == aspect:
                self.found.append(self._as_value(fact))
        return [tensor for _, tensor in collector.tensors]

    def _keep(self, tensor: torch.Tensor) -> TensorData:
        digest = tensor_digest(tensor)
        if digest not in self._samples:
            self._samples[digest] = _sample(tensor)
        return TensorData(str(tensor.dtype), tuple(tensor.shape), 0, 0, digest)

    def _as_value(self, fact: CallFact) -> ObservedValue:
        digest = fact.data.digest if fact.data is not None else ""
        return ObservedValue(
            fact.aspect, fact.path, fact.words, digest, self._samples.get(digest, ())
        )


def _sample(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return evenly spaced elements of a contiguous tensor as floats, and then the sum of the
    absolute values of all elements.
    """
    if not tensor.numel():
        return ()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    flat = tensor.reshape(-1).to(torch.float64)
    step = max(flat.numel() // _SAMPLE, 1)
    return (*flat[::step][:_SAMPLE].tolist(), float(flat.abs().sum()))


def input_gradients(call: CompiledCall, outputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Return the gradients of a weighted sum of ``outputs``, the results of a call, for its
    parameters and arguments.

    Empty if nothing requires gradients, or if the backward pass raises.
    """
    ends = [one for one in outputs if one.requires_grad and one.is_floating_point()]
    owner = getattr(call.function, "__self__", call.function)
    given = list(pytree.tree_leaves((call.args, call.kwargs)))
    modules = [one for one in (owner, *given) if isinstance(one, torch.nn.Module)]
    # Another version of the program may need gradients of more arguments, but not of parameters.
    inputs = [*(one for module in modules for one in module.parameters()), *given]
    wanted = {id(one): one for one in inputs if isinstance(one, torch.Tensor) and one.requires_grad}
    try:
        return gradients_of_outputs(ends, list(wanted.values()), retain_graph=True)
    except RuntimeError:
        return []


class ObservedModules:
    """Module classes whose calls are recorded, although the program does not compile them.

    ``names`` are the qualified names of the classes. ``note`` is called with the name of the class,
    the call and its result, after each call that no other observed module makes.
    """

    def __init__(
        self, names: tuple[str, ...], note: Callable[[str, CompiledCall, Any], None]
    ) -> None:
        self._names, self._note = names, note
        self._depth = 0
        self._classes: set[type] = set()

    @property
    def is_running(self) -> bool:
        """Whether a call of an observed module has not ended yet."""
        return self._depth > 0

    def observe_classes(self) -> None:
        """Observe the subclasses of ``torch.nn.Module`` that exist at the time of this call.

        The observer is stored as ``_compiled_call_impl`` of the class. ``torch.nn.Module.compile``
        sets the attribute of that name on one object.
        """
        waiting = [torch.nn.Module] if self._names else []
        while waiting:
            kind = waiting.pop()
            waiting += kind.__subclasses__()
            name = region_name(kind)
            if name in self._names and kind not in self._classes:
                self._classes.add(kind)
                kind._compiled_call_impl = self._make_observer(name)

    def _make_observer(self, name: str) -> Callable[..., Any]:
        def call_observed(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                result = module._call_impl(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth:
                self._note(name, CompiledCall(module, args, kwargs), result)
            return result

        return call_observed


def when_returned(frame: types.FrameType, note: Callable[[Any], None]) -> None:
    """Call ``note`` with the value that a live frame will return, unless it raises.

    Until the frame returns, this installs a trace function with ``sys.settrace``. Do nothing if
    another trace function, such as a debugger's, is installed.
    """
    if sys.gettrace() is not None:
        return

    raised = False

    def local(_: types.FrameType, event: str, value: Any) -> Any:
        nonlocal raised
        raised = raised or event == "exception"
        if event == "return":
            sys.settrace(None)
            frame.f_trace = None
            if value is not None or not raised:
                note(value)
        return local

    frame.f_trace_lines = False
    frame.f_trace = local
    sys.settrace(_ignore_frame)


def _ignore_frame(*_: Any) -> None:
    """Trace function for frames whose events are not needed."""
