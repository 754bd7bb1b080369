"""Example inputs from a recorded program: the calls that ``fullgraph record`` stored for a module
class."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..protocol import ProbeInfo
from ..protocol.recorded import FILE, RecordedCall, RecordedClass
from . import notation, notation_parser, tensors
from .context import CallContext
from .discovery import Target
from .notation import Arguments, NotationError
from .probes import BuiltFurtherCall, Call, Namespace, Probe, put_in_context, unwrap_compiled
from .tensors import ProbeError

MOST = 3
"""Maximum number of recorded calls traced per class, each with other dtypes, ranks or flags of its
inputs."""


def find_recorded(target: Target, recorded: Sequence[RecordedClass]) -> RecordedClass | None:
    """Return the recorded calls of a target's module class; None if none were recorded."""
    found = (one for one in recorded if one.name == target.definition and one.calls)
    return next(found, None) if target.kind == "module" and not target.get_module else None


def signature_text(function: Any) -> str:
    """Return the parameters of a method as text, without ``self``.

    It shows which have defaults, but not their values.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return ""
    shown = [
        one.replace(
            annotation=one.empty,
            default=one.default if one.default is one.empty else _Unspecified(),
        )
        for one in parameters
    ]
    return str(inspect.Signature(shown))


class _Unspecified:
    """A placeholder shown as ``…`` for any default value in the text of a signature."""

    def __repr__(self) -> str:
        return "…"


def is_stale(found: RecordedClass, namespace: Namespace) -> bool:
    """Whether the parameters of the constructor or of ``forward`` differ from those at the time of
    recording."""
    kind = namespace.get(found.name)
    if not isinstance(kind, type):
        return False
    now = signature_text(kind.__init__), signature_text(getattr(kind, "forward", None))  # type: ignore[misc]
    return now != (found.init_signature, found.forward_signature)


def recorded_probes(found: RecordedClass) -> list[Probe]:
    """Return one probe (inputs to trace with) for each recorded call of a class."""
    source = f"recorded in {FILE}"
    return [
        Probe(
            ProbeInfo(
                "harvest",
                " then ".join([call.forward, *(step.forward for step in call.then)]),
                call.init,
                source,
            ),
            _Recorded(found.name, call),
        )
        for call in found.calls[:MOST]
    ]


@dataclass(frozen=True)
class _Recorded:
    name: str
    call: RecordedCall

    def __call__(self, namespace: Namespace) -> Call:
        init, forward = self.read(self.call.init), self.read(self.call.forward)
        names = _Names(namespace)
        sizes = notation.choose_sizes(forward)
        made = tensors.build_inputs(init, {}, names)
        module = namespace[self.name](*made.args, **made.kwargs).train(self.call.training)
        dtype, _, device = self.call.parameters.partition("@")
        if dtype:
            module = module.to(tensors.dtype_of(dtype))
        if device:
            module = module.to(device)
        built = tensors.build_inputs(forward, sizes, names)
        call = Call(
            unwrap_compiled(module), built.args, built.kwargs, built.dynamic, self.call.init
        )
        call.is_stated = True
        call.then = tuple(self.steps(call.function, names))
        context = self.context(self.call.under)
        return put_in_context(
            call, replace(context, training=None if self.call.training else False)
        )

    def steps(self, module: Any, names: Mapping[str, Any]) -> Iterator[BuiltFurtherCall]:
        training = self.call.training
        for step in self.call.then:
            forward = self.read(step.forward)
            built = tensors.build_inputs(forward, notation.choose_sizes(forward), names)
            context = self.context(step.under)
            if step.training != training:
                training = step.training
                context = replace(context, training=training)
            yield BuiltFurtherCall(module, built.args, built.kwargs, built.dynamic, context)

    def context(self, text: str) -> CallContext:
        """Return the modes and settings of torch that the text of a recorded call states, such as
        ``no_grad``.

        Raises:
            ProbeError: the text cannot be parsed.
        """
        try:
            return notation_parser.parse_context(text)
        except NotationError as error:
            raise self.unreadable_error(error) from None

    def unreadable_error(self, error: NotationError) -> ProbeError:
        return ProbeError(
            f"The entry of {self.name} in {FILE} cannot be read: {error}; run `fullgraph "
            "record` again."
        )

    def read(self, text: str) -> Arguments:
        try:
            return notation_parser.parse_probe(f"forward({text})").inputs or Arguments()
        except NotationError as error:
            raise self.unreadable_error(error) from None


class _Names(Mapping[str, Any]):
    """A mapping from names in recorded arguments to objects: globals of the file, else importable
    modules."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def __getitem__(self, name: str) -> Any:
        if name in self._namespace:
            return self._namespace[name]
        try:
            return _ImportedModule(importlib.import_module(name))
        except ImportError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespace)

    def __len__(self) -> int:
        return len(self._namespace)


class _ImportedModule:
    """A module whose submodules are imported when they are accessed."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        try:
            found = getattr(self._module, name)
        except AttributeError:
            try:
                found = importlib.import_module(f"{self._module.__name__}.{name}")
            except ImportError:
                raise AttributeError(name) from None
        return _ImportedModule(found) if isinstance(found, types.ModuleType) else found
