"""Record constructor arguments and inputs of the workspace's modules, inside the user's program.

Each workspace class gets wrappers around its ``__init__`` and ``forward`` when it is defined. The
wrappers are invisible to the program: they swallow their own exceptions, and Dynamo does not trace
the recording because ``is_compiling()`` is a constant true there. Each process writes its own file,
every few seconds and at exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
import types
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..protocol.recorded import RecordedCall, RecordedClass, RecordedStep, written
from ..targets import notation
from ..targets.context import CallContext
from ..targets.notation import Arguments
from ..targets.recorded import signature_text
from ..torch_internals import ambient
from . import merging
from .values import ArgumentWriter, InexpressibleArgument, device_name, dtype_name

FOLDER, ROOT = "FULLGRAPH_RECORD", "FULLGRAPH_RECORD_ROOT"
"""Names of the environment variables that hold the folder for recordings and the workspace folder.
"""

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_MOST_SKIPPED = 1024
_MOST_SEEN = 4096
_EVERY = 2.0
"""Minimum seconds between two writes of new recordings to the file of this process."""


def begin_recording(module_class: Any) -> Callable[[], None]:
    """Record the calls of every subclass of ``torch.nn.Module`` defined from now on.

    Return a function that writes what this process has recorded so far; it is also called at exit.
    """
    recorder = _Recorder(Path(os.environ[FOLDER]), Path(os.environ[ROOT]))

    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        super(module_class, cls).__init_subclass__(**kwargs)
        recorder.watch_class(cls)

    module_class.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[arg-type]
    atexit.register(recorder.write)
    return recorder.write


class _Due:
    """A schedule that decides which calls of one class to examine. While calls show nothing new, it
    examines fewer and fewer of them.

    A call whose first argument has a new ``shape`` is examined in any case, until ``settled`` is
    set because new shapes no longer show anything new.
    """

    __slots__ = ("old", "settled", "shape", "skip")

    def __init__(self) -> None:
        self.skip = 0
        self.old = 0
        self.settled = False
        self.shape: Any = None

    def schedule_next(self, *, new: bool) -> None:
        self.old = 0 if new else self.old + 1
        # Examine every call at first: a model often calls many equal layers before a different one.
        self.skip = 0 if self.old < 16 else min(1 << (self.old - 15), _MOST_SKIPPED)
        self.settled = self.old >= 32


class _Kind(NamedTuple):
    """A group of calls of one class that differ only in sizes and numbers."""

    init: str
    forward: str
    training: bool
    parameters: str
    under: str


class _Watched:
    """The recorded calls of one class, and the schedule for examining its later calls."""

    def __init__(self, kind: Any, path: str, home: dict[str, Any]) -> None:
        self.kind, self.path, self.home = kind, path, home
        self.signatures = (signature_text(kind.__init__), signature_text(kind.forward))
        self.inits: dict[int, tuple[Any, Arguments | str]] = {}
        """Constructor arguments, or the reason why they are unknown, by ``id`` of the object; a
        weak reference removes the entry."""
        self.texts: set[str] = set()
        self.last: Arguments | None = None
        self.due = (_Due(), _Due())
        """Schedules that decide which calls to examine: in evaluation mode, and in training mode.
        """
        self.seen: dict[tuple[str, ...], _Kind] = {}
        """Group of each recorded call, by the exact notation of the call; calls in one group differ
        only in sizes and numbers."""
        self.calls: dict[_Kind, RecordedCall] = {}
        self.orders: dict[int, tuple[Any, list[_Kind]]] = {}
        """Groups of calls that each object has received so far, by ``id`` of the object; a weak
        reference removes the entry.
        """
        self.sequences: dict[tuple[_Kind, ...], None] = {}
        """Distinct sequences of calls that one object received, used as an ordered set."""
        self.left_out: set[str] = set()

    def recorded_class(self) -> RecordedClass:
        found = [
            call for order in self.sequences if (call := self.merge_sequence(order)) is not None
        ]
        calls = merging.without_covered([*found, *self.calls.values()])[: merging.MOST_CALLS]
        left_out = tuple(sorted(self.left_out)[: merging.MOST_CALLS])
        return RecordedClass(self.kind.__name__, *self.signatures, calls, left_out)

    def extends_sequence(self, module: Any, kind: _Kind) -> bool:
        """Record the next call of a module; return whether the module's sequence of calls so far is
        new.

        ``kind`` is the group of equal calls to which the call belongs.
        """
        key, orders = id(module), self.orders
        if key not in orders:
            orders[key] = (weakref.ref(module, lambda _: orders.pop(key, None)), [])
        order = orders[key][1]
        if kind in order or len(order) >= merging.MOST_STEPS:
            return False
        if order and order[0].parameters != kind.parameters:
            return False  # the module was moved to another device or dtype after its first call
        order.append(kind)
        if len(order) < 2 or tuple(order) in self.sequences:
            return False
        self.sequences[tuple(order)] = None
        return True

    def merge_sequence(self, order: tuple[_Kind, ...]) -> RecordedCall | None:
        """Merge a sequence of calls of one object into one recorded call.

        Return None if the constructor arguments of the calls differ.
        """
        first, *further = [self.calls[kind] for kind in order]
        if any(call.init != first.init for call in further):
            return None
        steps = (RecordedStep(call.forward, call.training, call.under) for call in further)
        return replace(first, then=tuple(steps))


class _Recorder:
    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root.resolve()
        self.began = time.time_ns()
        self.classes: list[_Watched] = []
        self.by_kind: dict[Any, _Watched] = {}
        self.wrote, self.unwritten = 0.0, False
        self.busy = False

    # -- classes ------------------------------------------------------------------------------

    def watch_class(self, kind: Any) -> None:
        try:
            if kind.__name__ == "OptimizedModule":
                _around_compiled(kind, self)
                return
            found = self.find_in_workspace(kind)
            if found is not None:
                self.classes.append(found)
                self.by_kind[kind] = found
                _around_init(found, self)
                _around_forward(found, self)
        except Exception:
            return  # recording must never break the program

    def find_in_workspace(self, kind: Any) -> _Watched | None:
        home = sys.modules.get(kind.__module__)
        file = getattr(home, "__file__", None)
        if home is None or not file or "." in kind.__qualname__:
            return None
        path = Path(file).resolve()
        if not path.is_relative_to(self.root) or not _INSTALLED.isdisjoint(path.parts):
            return None
        return _Watched(kind, path.relative_to(self.root).as_posix(), vars(home))

    # -- recording constructions and calls ----------------------------------------------------

    def record_construction(
        self, watched: _Watched, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self.busy:
            return
        self.busy = True
        try:
            given: Arguments | str
            try:
                given = self.writer(watched, contents=False).write_arguments(args, kwargs)
            except InexpressibleArgument as error:
                given = f"Its constructor was given {error}."
            key = id(module)
            inits = watched.inits
            inits[key] = (weakref.ref(module, lambda _: inits.pop(key, None)), given)
            watched.texts.add(str(given))
            watched.last = given if isinstance(given, Arguments) else None
        except Exception:
            return
        finally:
            self.busy = False

    def record_call(
        self,
        watched: _Watched,
        due: _Due,
        module: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        if self.busy:
            return
        self.busy = True
        try:
            new = self.note_call(watched, module, args, kwargs)
            due.schedule_next(new=new)
            due.shape = getattr(args[0], "shape", None) if args else None
            self.unwritten |= new
            # A killed program cannot write at exit, so write regularly.
            if self.unwritten and time.monotonic() - self.wrote > _EVERY:
                self.write()
        except Exception:
            due.schedule_next(new=False)
        finally:
            self.busy = False

    def note_call(
        self, watched: _Watched, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        """Record one call of ``module``; return whether it shows something new, such as other
        types.

        ``watched`` has the recorded calls of its class.
        """
        init = self.constructor_arguments(module, watched)
        try:
            forward = self.writer(watched, contents=True).write_arguments(args, kwargs)
            parameters, under = _parameter_placement(module), _context_text()
        except InexpressibleArgument as error:
            return _add_new(watched.left_out, f"It was called with {error}.")
        if isinstance(init, str):
            return _add_new(watched.left_out, init)
        text = notation.show_arguments(forward)
        known = (notation.show_arguments(init), text, str(module.training), parameters, under)
        seen = watched.seen.get(known)
        if seen is not None or len(watched.seen) >= _MOST_SEEN:
            return seen is not None and watched.extends_sequence(module, seen)
        mode = bool(module.training), parameters, under
        key = _Kind(merging.call_pattern(init), merging.call_pattern(forward), *mode)
        watched.seen[known] = key
        call = RecordedCall(known[0], text, bool(module.training), parameters, under)
        old = watched.calls.get(key)
        if old is not None:
            call = merging.merge_calls(old, call) if old.init == call.init else old
        watched.calls[key] = call
        return watched.extends_sequence(module, key) or call != old

    def constructor_arguments(self, module: Any, watched: _Watched) -> Arguments | str:
        found = watched.inits.get(id(module))
        if found is not None:
            return found[1]
        # The constructor of this object was not observed, so it is a copy. Use the arguments of the
        # other instances if they are all equal.
        if len(watched.texts) == 1 and watched.last is not None:
            return watched.last
        return "The arguments of its constructor are not known."

    def writer(self, watched: _Watched, *, contents: bool) -> ArgumentWriter:
        return ArgumentWriter(watched.home, self.arguments_of, contents=contents)

    def arguments_of(self, module: Any) -> Arguments | None:
        watched = self.by_kind.get(type(module))
        if watched is None:
            return None
        found = self.constructor_arguments(module, watched)
        return found if isinstance(found, Arguments) else None

    # -- writing the recording ----------------------------------------------------------------

    def write(self) -> None:
        """Write all recordings of this process to its own file; a forked process writes another
        file.
        """
        self.wrote, self.unwritten = time.monotonic(), False
        recorded: dict[str, tuple[RecordedClass, ...]] = {}
        for watched in self.classes:
            if watched.calls or watched.left_out:
                recorded[watched.path] = (*recorded.get(watched.path, ()), watched.recorded_class())
        if not recorded:
            return
        file = self.folder / f"{self.began}-{os.getpid()}.json"
        draft = file.with_suffix(".draft")
        try:
            draft.write_text(written(recorded), encoding="utf-8")
            draft.replace(file)
        except OSError:
            return  # the recording has ended while this process continues


def _add_new(known: set[Any], item: Any) -> bool:
    before = len(known)
    known.add(item)
    return len(known) > before


def _parameter_placement(module: Any) -> str:
    """Return the dtype and device of a module's parameters, such as ``bf16@cuda``.

    The first floating-point parameter decides.
    """
    for parameter in module.parameters():
        if not parameter.is_floating_point():
            continue
        dtype, device = dtype_name(parameter.dtype), device_name(parameter.device)
        if dtype is None:
            raise InexpressibleArgument(f"parameters of {parameter.dtype}")
        default = dtype_name(sys.modules["torch"].get_default_dtype())
        dtype = "" if dtype == default else dtype
        return f"{dtype}@{device}" if device else dtype
    return ""


def _context_text() -> str:
    """Return the modes and settings of the current call, such as ``no_grad``, that differ from the
    defaults.

    They are written in the notation of comments with example inputs.
    """
    settings = tuple(ambient.changed_settings().items())
    context = CallContext.of_running_code()
    return replace(context, stance=ambient.stance(), settings=settings).text


# -- wrappers around the user's classes ---------------------------------------------------------
#
# Each wrapper shares the globals of the function that it wraps, as ``torch.jit.script`` resolves
# names there. So a wrapper may only use names of its closure.


def _around_init(watched: _Watched, recorder: _Recorder) -> None:
    kind, inner, constructed, type_of = (
        watched.kind,
        watched.kind.__init__,
        recorder.record_construction,
        type,
    )
    compiling = _is_compiling()

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not compiling() and type_of(self) is kind:
            constructed(watched, self, args, kwargs)
        inner(self, *args, **kwargs)

    kind.__init__ = _adopt_globals(inner, __init__)


def _around_forward(watched: _Watched, recorder: _Recorder) -> None:
    kind, inner, called, type_of = watched.kind, watched.kind.forward, recorder.record_call, type
    due_of, compiling, attribute = watched.due, _is_compiling(), getattr

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not compiling() and type_of(self) is kind:
            due = due_of[self.training]
            if due.skip and (
                due.settled or (args and attribute(args[0], "shape", None) == due.shape)
            ):
                due.skip -= 1
            else:
                called(watched, due, self, args, kwargs)
        return inner(self, *args, **kwargs)

    kind.forward = _adopt_globals(inner, forward)


def _around_compiled(kind: Any, recorder: _Recorder) -> None:
    """Record calls of modules returned by ``torch.compile``, by wrapping their class ``kind``.

    Wrappers of the user's classes do not see these calls.
    """
    inner, compiling = kind.__call__, _is_compiling()

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = self._orig_mod
        watched = recorder.by_kind.get(type(module))
        if watched is not None and not compiling():
            due = watched.due[module.training]
            if due.skip and (
                due.settled or (args and getattr(args[0], "shape", None) == due.shape)
            ):
                due.skip -= 1
            else:
                recorder.record_call(watched, due, module, args, kwargs)
        return inner(self, *args, **kwargs)

    kind.__call__ = functools.wraps(inner)(__call__)


def _is_compiling() -> Callable[[], bool]:
    found: Callable[[], bool] = sys.modules["torch"].compiler.is_compiling
    return found


def _adopt_globals(inner: Any, function: types.FunctionType | Any) -> Any:
    """Return a wrapper function with the globals and metadata of ``function``.

    ``inner`` is the wrapper, ``function`` the wrapped function.
    """
    globals_ = getattr(inner, "__globals__", None)
    if globals_ is None:
        return functools.wraps(inner)(function)
    made = types.FunctionType(
        function.__code__, globals_, function.__name__, None, function.__closure__
    )
    return functools.wraps(inner)(made)
