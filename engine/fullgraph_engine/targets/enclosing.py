"""Probes from an enclosing run: what a class or function is called with inside another target.

The run of such a probe makes the call of the enclosing target and runs it without Dynamo, up to the
first call of the wanted class or function. What is traced is the very instance that was called, as
it was then, with copies of its inputs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from .. import code_objects
from ..protocol import ProbeInfo
from . import chance, tensors
from .deadline import within
from .discovery import Target
from .probes import Call, Namespace, NoProbe, Probe, unwrap
from .tensors import ProbeError

MOST = 3
"""Calls of so many signatures become runs."""

SECONDS = 20.0
"""What one enclosing run may take: all targets that it encloses wait for one of their own."""

_ANONYMOUS = re.compile(r"(\.<locals>\.<\w+>)+$")

T = TypeVar("T")


class NotCalled(NoProbe):
    """The enclosing targets ran, or began to, and never called the wanted one.

    ``cut_short`` is the call in which the last of them raised; ``unbuilt``: it raised before there
    was one.
    """

    def __init__(self, words: str, cut_short: Call | None = None, *, unbuilt: bool = False) -> None:
        super().__init__(words)
        self.cut_short = cut_short
        self.unbuilt = unbuilt


@dataclass(frozen=True)
class Enclosing:
    """What uses the wanted target, and a way to call it.

    ``is_program``: it is no target, but code that is executed to see what it calls.
    """

    name: str
    probe: Probe
    seconds: float = field(default_factory=lambda: SECONDS)
    """What it may take up to the first call of the wanted one."""
    further_seconds: float = field(default_factory=lambda: SECONDS)
    """And up to those of other signatures."""
    is_program: bool = False
    is_doubtful: bool = False
    """Nobody may have run it for long, so what it calls may raise."""


def probes(target: Target, enclosing: Sequence[Enclosing]) -> list[Probe]:
    """The probes of a target that ``enclosing`` call: the first, and those that wait for it.

    Building one raises :class:`NotCalled` where there is no such call.
    """
    if not enclosing:
        return []
    users = dict.fromkeys(one.name for one in enclosing)
    info = ProbeInfo("harvest", inputs="", source=f"as called by {', '.join(users)}")
    found = []
    for number in range(MOST):
        calls = _Calls(target, tuple(enclosing), number)
        found.append(Probe(info, calls, calls.further if number == 0 else None, waits=number > 0))
    return found


@dataclass(frozen=True)
class _Calls:
    """The call of a target with the signature of this number, as the enclosing targets make it."""

    target: Target
    enclosing: tuple[Enclosing, ...]
    number: int

    def __call__(self, namespace: Namespace) -> Call:
        watch = _Watch(self.number + 1)
        trouble: NotCalled | None = None
        for one in self.enclosing:
            try:
                self.run(one, namespace, watch, one.seconds)
            except NotCalled as error:
                trouble = trouble or error
            if watch.last is not None:
                return watch.last
        users = " and ".join(dict.fromkeys(one.name for one in self.enclosing))
        raise trouble or NotCalled(_sentence(f"{users} ran, and did not call {self.target.name}."))

    def further(self, namespace: Namespace) -> int:
        """How many signatures there are besides the first."""
        from .. import tracing

        watch = _Watch(MOST)
        for one in self.enclosing:
            chance.begin_again()
            with contextlib.suppress(NotCalled, tracing.ValueNeeded):
                # Between calls it is safe to end; code of torch may abort when it is interrupted.
                watch.until = time.monotonic() + one.further_seconds
                self.run(one, namespace, watch, min(one.seconds, 2 * one.further_seconds))
            if watch.last is not None:
                break
        return max(len(watch.signatures) - 1, 0)

    def run(self, one: Enclosing, namespace: Namespace, watch: _Watch, seconds: float) -> None:
        """Run an enclosing target until ``watch`` has seen enough."""
        from .. import tracing

        call: Call | None = None
        watch.program, watch.is_doubtful = one.name if one.is_program else "", one.is_doubtful
        try:
            with _watched(self.target, namespace, watch), within(_TooLong, seconds):
                call = one.probe.build(namespace)
                tracing.call_eagerly(call.function, call.args, call.kwargs)
        except Enough:
            return
        except _TooLong:
            words = (
                f"{one.name} ran for {seconds:g} seconds, and had not called {self.target.name}."
            )
            raise NotCalled(_sentence(words)) from None
        except NotCalled as error:
            raise NotCalled(_sentence(str(error))) from None
        except ProbeError as error:
            raise NotCalled(f"The probe of {one.name}, which uses it, fails: {error}") from error
        except (Exception, SystemExit) as error:
            failure = tracing.failure_of(error)
            words = f"{failure.kind}: {failure.message}".partition("\n")[0].rstrip(": ")
            words = _sentence(f"{one.name} raised before it called {self.target.name}: {words}")
            # What torch raises is a RuntimeError; else it is the example that is wrong.
            wrong = one.is_doubtful and not isinstance(error, RuntimeError)
            if wrong or isinstance(error, _NOT_OF_TENSORS):
                raise NotCalled(words) from error
            raise NotCalled(words, call, unbuilt=call is None) from error


_NOT_OF_TENSORS = (OSError, EOFError, ImportError, NameError, SystemExit)
"""What is raised with tensors of any kind."""


def _sentence(words: str) -> str:
    """With a capital letter in front, unless a name is."""
    return f"T{words[1:]}" if words.startswith("the ") else words


class Enough(BaseException):
    """Ends the enclosing run. Not an ``Exception``: user code that catches these goes on else."""


class _TooLong(BaseException):
    """Ends an enclosing run whose time is up."""


class _Watch:
    """The signatures of the calls that were seen, up to so many; then ``last`` is the last one."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.signatures: set[Hashable] = set()
        self.made: dict[int, tuple[str, Hashable]] = {}
        """Arguments of constructors, in notation and as signatures, by the ``id`` of objects."""
        self.last: Call | None = None
        self.until = float("inf")
        """When it has seen enough in any case, by the clock."""
        self.program = ""
        """What is executed, if that is no target."""
        self.is_doubtful = False

    def constructed(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.made[id(module)] = (
            tensors.describe(args, kwargs),
            _signature((args, kwargs)),
        )

    def called(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], namespace: Namespace
    ) -> None:
        if self.last is not None:
            return
        init, made = self.made.get(id(function), ("", ()))
        signature = (_signature((args, kwargs)), made, getattr(function, "training", None))
        if signature in self.signatures:
            if time.monotonic() > self.until:
                raise Enough
            return
        self.signatures.add(signature)
        if len(self.signatures) == self.wanted:
            args, kwargs = _copied((args, kwargs))
            place = _place(sys._getframe(2), str(namespace.get("__file__", "")), self.program)
            self.last = Call(unwrap(function), args, kwargs, (), init, place)
            self.last.is_doubtful = self.is_doubtful
            raise Enough


def _watched(
    target: Target, namespace: Namespace, watch: _Watch
) -> contextlib.AbstractContextManager[None]:
    found = namespace.get(target.subject)
    if isinstance(found, type):
        return _watched_class(found, namespace, watch)
    return _watched_function(target.subject, namespace, watch)


@contextlib.contextmanager
def _watched_class(found: type, namespace: Namespace, watch: _Watch) -> Iterator[None]:
    """Instances of exactly this class; those of subclasses are other models."""
    init, forward = found.__init__, getattr(found, "forward", None)  # type: ignore[misc]

    @functools.wraps(init)
    def constructed(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is found:
            watch.constructed(self, args, kwargs)
        init(self, *args, **kwargs)

    patched: dict[str, Any] = {"__init__": constructed}
    if callable(forward):

        @functools.wraps(forward)
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            if type(self) is found:
                watch.called(self, args, kwargs, namespace)
            return forward(self, *args, **kwargs)

        patched["forward"] = called
    own = {name: vars(found)[name] for name in patched if name in vars(found)}
    for name, value in patched.items():
        setattr(found, name, value)
    try:
        yield
    finally:
        for name in patched:
            if name in own:
                setattr(found, name, own[name])
            else:
                delattr(found, name)


@contextlib.contextmanager
def _watched_function(name: str, namespace: Namespace, watch: _Watch) -> Iterator[None]:
    found = namespace[name]

    @functools.wraps(found)
    def called(*args: Any, **kwargs: Any) -> Any:
        watch.called(found, args, kwargs, namespace)
        return found(*args, **kwargs)

    namespace[name] = called
    try:
        yield
    finally:
        namespace[name] = found


# -- what a call is like ----------------------------------------------------------------------


def _signature(tree: Any) -> Hashable:
    """What makes two calls alike: containers, dtypes, ranks, which sizes are equal, and flags.

    Sizes themselves do not count, but for 0 and 1, which Dynamo treats apart: a network has a
    convolution in dozens of them.
    """
    from ..torch_internals.trees import pytree

    leaves, spec = pytree.tree_flatten(tree)
    sizes: dict[int, int] = {}
    return str(spec), tuple(_leaf_signature(leaf, sizes) for leaf in leaves)


def _leaf_signature(leaf: Any, sizes: dict[int, int]) -> Hashable:
    import torch

    if isinstance(leaf, torch.Tensor):
        pattern = tuple(
            size if size in (0, 1) else -1 - sizes.setdefault(size, len(sizes))
            for size in leaf.shape
            if isinstance(size, int)
        )
        return leaf.dtype, leaf.dim(), pattern, str(leaf.device)
    if leaf is None or isinstance(leaf, (bool, str)):
        return type(leaf), leaf
    if isinstance(leaf, type) or inspect.isfunction(leaf):
        return id(leaf)
    return id(type(leaf))


def _copied(tree: T) -> T:
    """The same arguments with tensors of their own: code behind the call may write to these.

    Parameters stay what they are: for Dynamo they are something else than their copies.
    """
    import torch

    from ..torch_internals.trees import pytree
    from ..tracing.variations import resized

    known: dict[int, torch.Tensor] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
            return value
        if id(value) not in known:
            known[id(value)] = resized(value, {})
        return known[id(value)]

    return pytree.tree_map(copied, tree)  # type: ignore[no-any-return]


def _place(frame: FrameType | None, path: str, program: str) -> str:
    """Where the file makes the call, in words; empty where it does not itself."""
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back
    if frame is None:
        return ""
    name = _ANONYMOUS.sub("", code_objects.qualified_name(frame))
    words = f"as called by {name}, line {frame.f_lineno}"
    return words if program in ("", name) else f"{words}, in {program}"
