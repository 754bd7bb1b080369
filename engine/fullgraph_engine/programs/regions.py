"""Find the regions of a program: the callables that it compiles.

Nothing that the program sees is replaced. The context object that ``torch.compile`` creates for a
callable runs hooks before and after each call; the engine adds one hook.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..protocol.regions import RegionApi
from ..torch_internals import dynamo, frames
from ..torch_internals import regions as upstream
from ..torch_internals.regions import CompiledCall
from ..tracing import stacks
from ..tracing.drive import NoBackend
from ..tracing.recording import Stack

_LONGEST_OPTION = 60


@dataclass(frozen=True)
class RegionFailure:
    """An exception that left a call of a region (a compiled callable), with the call.

    The call can be repeated without Dynamo. ``number`` is the number of the call, from 1.
    """

    error: BaseException
    call: CompiledCall | None
    number: int


_MOST_FAILURES = 8


@dataclass(eq=False)
class LiveRegion:
    """A callable that the program compiles (a region), with facts from its calls so far.

    ``site`` is the stack of the call that compiled it, outermost frame first. ``code`` is the code
    object of the compiled function; None if the callable is not a Python function. ``kind`` is the
    class of a compiled module.
    """

    api: RegionApi
    name: str
    site: Stack
    options: tuple[tuple[str, str], ...]
    code: types.CodeType | None = None
    kind: type | None = None
    calls: int = 0
    quiet: int = 0
    """Number of calls of the compiled callable since Dynamo last compiled something for it."""
    failures: list[RegionFailure] = field(default_factory=list)
    """First calls of the compiled callable that raised an exception."""

    @property
    def is_export(self) -> bool:
        """Whether ``torch.export`` traces the callable, once, without compiling it."""
        return self.api == "torch.export.export"


class Listener:
    """An observer whose methods run before and after each call of a region (a compiled
    callable)."""

    def region_compiled(self, region: LiveRegion, compiled: Any) -> None:
        """Called when the program has compiled a region; ``compiled`` is the object that it
        calls."""

    def before_call(self, region: LiveRegion, call: CompiledCall, frame: types.FrameType) -> None:
        """Called before each call of a region, before ``enter_region``; ``frame`` makes the
        call."""

    def enter_region(self, region: LiveRegion) -> None:
        """Called when a call of a region begins."""

    def leave_region(self, region: LiveRegion, error: BaseException | None) -> None:
        """Called when a call of a region has ended; ``error`` is its exception, None if it
        returned."""


class Regions:
    """All regions (compiled callables) of one program, in the order in which they were compiled."""

    def __init__(self, bottom: types.CodeType, listener: Listener) -> None:
        self.all: list[LiveRegion] = []
        self._bottom, self._listener = bottom, listener
        self._depth = 0
        self._by_key: dict[object, LiveRegion] = {}
        self._note = dynamo.disable(self._note_region)

    def watch(self) -> Callable[[], None]:
        """Start to record every callable that this process compiles or exports; return a function
        that stops recording.
        """
        undone = (
            upstream.CONTEXT.wrap(self._around_context),
            upstream.EXPORT.wrap(self._around_export),
        )

        def unwatch() -> None:
            for undo in undone:
                if undo is not None:
                    undo()

        return unwatch

    # -- torch.compile and Module.compile -----------------------------------------------------

    def _around_context(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(context: Any, function: Any) -> Any:
            if self._depth:
                # torch.compile has called itself, for a module or the methods of a class.
                return original(context, function)
            self._depth += 1
            try:
                made = original(context, function)
            finally:
                self._depth -= 1
            self._note(context, function, sys._getframe(1), made)
            return made

        frames.skip_code(__call__.__code__)
        return __call__

    def _note_region(
        self, context: Any, function: Any, frame: types.FrameType | None, made: Any
    ) -> None:
        compile_frame, through_module, caller = _compile_frame(frame)
        if caller and isinstance(function, torch.fx.GraphModule):
            return  # torch itself compiles a graph here, as compiled autograd does
        api: RegionApi = "Module.compile" if through_module else "torch.compile"
        region = self._make_region(api, function, frame, _compile_options(compile_frame))
        if region is not None:
            # With compiled autograd, Dynamo would also trace this hook, so disable tracing for it.
            enter = dynamo.disable(functools.partial(self._enter_call, region))
            upstream.add_call_hook(context, enter)
            self._listener.region_compiled(region, made)

    def _enter_call(self, region: LiveRegion) -> Callable[[], None]:
        call = upstream.find_compiled_call(sys._getframe(1))
        region.calls += 1
        number = region.calls
        frame = upstream.find_wrapper_frame(sys._getframe(1))
        if call is not None and frame is not None:
            self._listener.before_call(region, call, frame)
        self._listener.enter_region(region)

        def leave() -> None:
            self._leave_call(region, sys.exc_info()[1], call, number)

        return dynamo.disable(leave)  # type: ignore[no-any-return]

    def _leave_call(
        self,
        region: LiveRegion,
        error: BaseException | None,
        call: CompiledCall | None,
        number: int,
    ) -> None:
        if error is not None and len(region.failures) < _MOST_FAILURES:
            region.failures.append(RegionFailure(error, call, number))
        self._listener.leave_region(region, error)

    # -- torch.export -------------------------------------------------------------------------

    def _around_export(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def export(mod: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth:  # in torch up to 2.9, one export function calls the other
                return original(mod, *args, **kwargs)
            options = tuple((name, _option_words(value)) for name, value in kwargs.items())
            known = {"strict", "dynamic_shapes"}
            options = tuple(one for one in options if one[0] in known)
            region = self._make_region("torch.export.export", mod, sys._getframe(1), options)
            if region is None:
                return original(mod, *args, **kwargs)
            region.calls += 1
            number = region.calls
            self._listener.enter_region(region)
            inputs = args[0] if args else kwargs.get("args", ())
            named = (args[1] if len(args) > 1 else kwargs.get("kwargs")) or {}
            raised: BaseException | None = None
            self._depth += 1
            try:
                return original(mod, *args, **kwargs)
            except BaseException as error:
                raised = error
                raise
            finally:
                self._depth -= 1
                self._leave_call(region, raised, CompiledCall(mod, tuple(inputs), named), number)

        return export

    # -- torch.compile and torch.export ----------------------------------------------------------

    def _make_region(
        self,
        api: RegionApi,
        function: Any,
        frame: types.FrameType | None,
        options: tuple[tuple[str, str], ...],
    ) -> LiveRegion | None:
        """Return the region (compiled callable) for a compile call; None for calls outside the
        workspace.

        All callables with one code object, compiled at one location with the same options, share
        a region. ``frame`` makes the call; ``api`` is the function called.
        """
        site = stacks.stack_of_frame(frame, self._bottom)
        if not any(is_own(one.path) for one in site):
            return None
        subject = upstream.compiled_subject(function)
        name, code, kind = _describe_subject(subject)
        last = next(one for one in reversed(site) if is_own(one.path))
        key = (api, name, code, kind, last.path, last.line, last.byte, options)
        region = self._by_key.get(key)
        if region is None:
            region = self._by_key[key] = LiveRegion(api, name, site, options, code, kind)
            self.all.append(region)
        return region


def is_own(path: str) -> bool:
    """Whether a file is the user's: neither installed, nor part of torch or the engine."""
    return not (stacks.is_library(path) or stacks.is_machinery(path))


def _describe_subject(subject: Any) -> tuple[str, types.CodeType | None, type | None]:
    """Return the name of a callable, its code object or None, and its class if it is a module."""
    if isinstance(subject, torch.nn.Module):
        kind = type(subject)
        # Classes of torch.jit compute ``forward`` when it is read from an instance, and raise
        # otherwise.
        return region_name(kind), _code_of(inspect.getattr_static(kind, "forward", None)), kind
    while isinstance(subject, functools.partial):
        subject = subject.func
    if isinstance(subject, type):
        return region_name(subject), None, None
    function = inspect.unwrap(subject) if callable(subject) else subject
    owner = getattr(function, "__self__", None)
    if inspect.ismethod(function):
        function = inspect.unwrap(function.__func__)
        holder = owner if isinstance(owner, type) else type(owner)
        return f"{region_name(holder)}.{function.__name__}", _code_of(function), None
    if inspect.isfunction(function):
        return region_name(function), _code_of(function), None
    owner_type: Any = type(subject)
    return (
        region_name(owner_type),
        _code_of(owner_type.__call__) if callable(subject) else None,
        None,
    )


def region_name(thing: Any) -> str:
    """Return the qualified name of a class or function, without the part ``<locals>``."""
    name = str(getattr(thing, "__qualname__", getattr(thing, "__name__", "region")))
    return name.replace("<locals>.", "")


def _code_of(function: Any) -> types.CodeType | None:
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return code if isinstance(code, types.CodeType) else None


def _compile_frame(
    frame: types.FrameType | None,
) -> tuple[types.FrameType | None, bool, bool]:
    """Find the innermost call of ``torch.compile`` around ``frame``; the search ends at the first
    frame outside torch.

    Return the frame of the call (or None), whether ``Module.compile`` made the call, and whether
    other code of torch made it.
    """
    found: types.FrameType | None = None
    through_module = through_torch = False
    while frame is not None and stacks.is_torch(frame.f_code.co_filename):
        name, path = frame.f_code.co_name, frame.f_code.co_filename
        if upstream.is_compile_call(frame.f_code):
            found = found or frame
        elif name == "compile" and "nn/modules" in path:
            through_module = True
        elif not path.endswith(("torch/__init__.py", "_dynamo/eval_frame.py")):
            through_torch = True
        frame = frame.f_back
    return found, through_module, through_torch


def _compile_options(frame: types.FrameType | None) -> tuple[tuple[str, str], ...]:
    """Return the arguments of a ``torch.compile`` call that differ from their defaults, by name."""
    if frame is None:
        return ()
    found = []
    for name, default in upstream.DEFAULTS.items():
        value = frame.f_locals.get(name, default)
        if isinstance(value, NoBackend):  # torch has wrapped the backend by now
            value = value.wrapped
        if name == "mode" and value == "default":
            continue
        if value is not default and value != default:
            found.append((name, _option_words(value)))
    return tuple(found)


def _option_words(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    try:
        words = str(name) if name is not None else repr(value)
    except Exception:  # a user's __repr__ may do anything
        words = f"<{type(value).__name__}>"
    return words if len(words) <= _LONGEST_OPTION else words[: _LONGEST_OPTION - 1] + "…"
