"""Example inputs taken from other targets: the inputs that a caller passes to a class or function
of the file.

An enclosing run calls a target that uses the wanted class or function. It runs without Dynamo up to
the first call of the wanted one. Then the called object is traced in its state at that time, with
copies of its inputs.

Where processes can be forked, one enclosing run serves all targets that it calls:
:func:`leave_snapshots` forks a snapshot (a copy of the process that waits) at each call. The
snapshot continues as the run that traces the called target.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import re
import sys
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from .. import code_objects
from ..protocol import ProbeInfo, UncalledTarget
from . import rng, tensors
from .context import CallContext
from .deadline import limit_seconds
from .discovery import Target
from .probes import Call, Enclosing, Namespace, NoProbe, Probe, unwrap_compiled
from .tensors import ProbeError

if TYPE_CHECKING:
    from ..tracing.tensors import ChosenState

_WALL_FACTOR = 3
"""Ratio of the wall time to the processor time that a caller may take."""

MOST = 3
"""Maximum number of call signatures (dtypes, ranks and flags of the inputs) traced per target."""


_ANONYMOUS = re.compile(r"(\.<locals>\.<\w+>)+$")

T = TypeVar("T")


class NotCalled(NoProbe):
    """Raised if the callers of the wanted target were executed, at least in part, without calling
    it.

    ``may_use_real``: with real tensors, the callers may execute more of their code and call it.
    ``describe`` returns the message for another target that the same callers did not call.
    """

    uncalled = True

    def __init__(
        self,
        words: str,
        *,
        may_use_real: bool = False,
        describe: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(words)
        self.may_use_real = may_use_real
        self.describe = describe or (lambda wanted: words)


_uncalled: dict[str, UncalledTarget] = {}
"""Targets that their callers, executed in another process, did not call, by name."""


def remember_uncalled(one: UncalledTarget) -> None:
    """Store that the callers of a target do not call it, so that this process does not execute them
    again."""
    _uncalled[one.target] = one


def enclosing_probes(target: Target, enclosing: Sequence[Enclosing]) -> list[Probe]:
    """Return example inputs of a target, taken from calls that ``enclosing`` (its callers) make:
    one probe per call signature.

    A call signature is the dtypes, ranks and flags of the inputs. All probes but the first wait
    until the first run has counted the signatures. Building a probe raises :class:`NotCalled` if
    the call does not happen.
    """
    if not enclosing:
        return []
    users = dict.fromkeys(one.name for one in enclosing)
    info = ProbeInfo("harvest", inputs="", source=f"as called by {', '.join(users)}")
    calls = [_EnclosingCalls(target, tuple(enclosing), number) for number in range(MOST)]
    # A program may run long after the wanted call, and may be stopped at any point. So only the
    # other callers share one run; programs follow if the other callers do not call the target.
    shared = tuple(one for one in enclosing if one.is_shared)
    return [
        Probe(
            info,
            call,
            call.count_further if call.number == 0 else None,
            waits=call.number > 0,
            users=tuple(one.name for one in shared),
            _enclosing=lambda: shared,
        )
        for call in calls
    ]


@dataclass(frozen=True)
class _EnclosingCalls:
    """An object that builds a call of a target as one of the target's callers makes it.

    ``number`` selects one of the calls with distinct signatures. A signature is the dtypes, ranks
    and flags of the inputs.
    """

    target: Target
    enclosing: tuple[Enclosing, ...]
    number: int

    def __call__(self, namespace: Namespace) -> Call:
        here = _call_of_snapshot(self.target, self.number)
        if here is not None:
            return here
        watch = _CallWatch(self.target, lambda number: number == self.number)
        known = _uncalled.get(self.target.name)
        trouble = known and NotCalled(known.reason, may_use_real=known.may_use_real)
        for one in self.enclosing:
            if _is_too_large(one) or (known and one.is_shared):
                continue
            try:
                _run_enclosing(one, namespace, [watch], one.seconds)
            except NotCalled as error:
                trouble = trouble or error
            if watch.last is not None:
                return watch.last
        raise trouble or _ran_without_calling(_join_names(self.enclosing), self.target.name)

    def count_further(self, namespace: Namespace) -> int:
        """Execute the callers again, and return how many further calls of the target have other
        dtypes, ranks or flags of the inputs, at most ``MOST - 1``.

        ``namespace`` are the globals of the file. Each such call is traced in another process.
        Return 0 in a process that traces one of them.
        """
        from .. import tracing

        if _here is not None and _here.target == self.target:
            return 0
        known = self.target.name in _uncalled
        watch = _CallWatch(self.target, lambda number: number == MOST - 1)
        for one in self.enclosing:
            if one.if_uncalled and (watch.signatures or _is_too_large(one)):
                continue
            if known and one.is_shared:
                continue
            rng.seed_generators()
            with contextlib.suppress(NotCalled, tracing.ValueNeeded):
                # Stopping a program between calls is safe; interrupted code of torch may abort.
                watch.until = time.monotonic() + one.further_seconds
                _run_enclosing(one, namespace, [watch], min(one.seconds, 2 * one.further_seconds))
            if watch.last is not None:
                break
        return max(len(watch.signatures) - 1, 0)


def _is_too_large(one: Enclosing) -> bool:
    """Whether a caller is a model in its full size and would be constructed with real tensors,
    which may take minutes and all memory."""
    return one.if_uncalled and tensors.fake_mode() is None


def _run_enclosing(
    one: Enclosing, namespace: Namespace, watches: Sequence[_CallWatch], seconds: float
) -> None:
    """Execute a caller of the wanted targets until one of ``watches`` (recorders of calls) has
    enough calls, or for ``seconds`` of processor time."""
    from .. import tracing

    call: Call | None = None

    def not_called(describe: Callable[[str], str], *, may_use_real: bool = False) -> NotCalled:
        words = describe(watches[0].target.name)
        return NotCalled(words, may_use_real=may_use_real, describe=describe)

    try:
        # On a busy machine, imports alone may take longer than ``seconds`` of wall time.
        limit = limit_seconds(_TooLong, _WALL_FACTOR * seconds, processor=seconds)
        with contextlib.ExitStack() as watched, limit:
            for watch in watches:
                watch.enclosing = one
                watched.enter_context(_watch_calls(watch, namespace))
            call = one.probe.build(namespace)
            tracing.call_eagerly(call.function, call.args, call.kwargs)
    except Enough:
        return
    except _TooLong:
        ran = _capitalize_sentence(f"{one.name} ran for {seconds:g} seconds, and did not call")
        raise not_called(lambda wanted: f"{ran} {wanted}.") from None
    except NotCalled as error:
        raise NotCalled(_capitalize_sentence(str(error))) from None
    except ProbeError as error:
        raise NotCalled(f"The probe of the caller {one.name} fails: {error}") from error
    except (Exception, SystemExit) as error:
        failure = tracing.failure_of(error)
        words = f"{failure.kind}: {failure.message}".partition("\n")[0].rstrip(": ")
        when = "when" if watches[0].is_called else "before"
        raised = _capitalize_sentence(f"{one.name} raised {when} it called")

        def describe(wanted: str) -> str:
            return f"{raised} {wanted}: {words}"

        # Errors of torch are RuntimeErrors; other errors mean that the example itself is wrong.
        wrong = one.is_doubtful and not isinstance(error, RuntimeError)
        if wrong or isinstance(error, _NOT_OF_TENSORS):
            raise not_called(describe) from error
        can_be_real = call is None or call.fits_real_tensors()
        raise not_called(describe, may_use_real=can_be_real) from error


def _ran_without_calling(callers: str, wanted: str) -> NotCalled:
    def describe(name: str) -> str:
        return _capitalize_sentence(f"{callers} ran, and did not call {name}.")

    return NotCalled(describe(wanted), describe=describe)


def _join_names(callers: Sequence[Enclosing]) -> str:
    return " and ".join(dict.fromkeys(one.name for one in callers))


_NOT_OF_TENSORS = (OSError, EOFError, ImportError, NameError, SystemExit)
"""Exceptions that fake tensors and real tensors raise alike, so that trying the other kind is
useless."""


def _capitalize_sentence(words: str) -> str:
    """Capitalize the first letter of a sentence, unless the sentence begins with a name."""
    return f"T{words[1:]}" if words.startswith("the ") else words


class Enough(BaseException):
    """Raised at the wanted call to end the execution of its callers; a BaseException so that
    ``except Exception`` cannot swallow it."""


_unwatched = 0
"""Number of active :func:`ignore_calls` blocks, in which calls are not recorded; the blocks can be
nested."""


@contextlib.contextmanager
def ignore_calls() -> Iterator[None]:
    """Do not record calls inside the ``with`` block, for example calls of modules with
    uninitialized parameters."""
    global _unwatched
    _unwatched += 1
    try:
        yield
    finally:
        _unwatched -= 1


class _TooLong(BaseException):
    """Raised in the callers of a wanted target when their time limit is reached."""


class _CallWatch:
    """A recorder of the calls of one target while its callers are executed; calls with equal
    signatures count once.

    A signature is the dtypes, ranks and flags of the inputs. Signatures are numbered from 0.
    ``takes(number)`` returns whether the call with this number is wanted. At a wanted call, the
    execution ends, and ``last`` is the call.
    """

    def __init__(self, target: Target, takes: Callable[[int], bool]) -> None:
        self.target, self.takes = target, takes
        self.patches: list[weakref.ref[Any]] = []
        """Functions that temporarily replace the target's function or methods to record calls."""
        self.signatures: set[Hashable] = set()
        self.made: dict[int, tuple[str, Hashable]] = {}
        """Arguments with which each object was constructed, as text and as a comparable key, by the
        ``id`` of the object."""
        self.last: Call | None = None
        self.until = float("inf")
        """Time in ``time.monotonic`` at which recording stops, even without a wanted call."""
        self.enclosing: Enclosing | None = None
        """Caller of the target in execution; its calls of the target are recorded. None while no
        caller runs."""
        self.is_called = False
        """True if the target was called by possibly outdated code; the call may raise although the
        target is correct."""

    def note_constructed(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.made[id(module)] = (
            tensors.describe_inputs(args, kwargs),
            _call_signature((args, kwargs)),
        )

    def note_call(
        self,
        function: Any,
        body: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        namespace: Namespace,
    ) -> None:
        """Record a call of ``function`` with these arguments; ``body`` makes the call.

        A call by possibly outdated code, such as an example in a docstring, counts only if it
        returns.
        """
        enclosing = self.enclosing
        if enclosing is None or self.last is not None or _unwatched:
            return
        init, made = self.made.get(id(function), ("", ()))
        signature = (_call_signature((args, kwargs)), made, getattr(function, "training", None))
        if signature in self.signatures:
            if time.monotonic() > self.until:
                raise Enough
            return
        arguments = _copy_tensors((args, kwargs))
        if enclosing.is_doubtful:
            self.is_called = True
            body()
        first = not self.signatures
        self.signatures.add(signature)
        if self.takes(len(self.signatures) - 1):
            args, kwargs = arguments
            caller, program = sys._getframe(2), enclosing.name if enclosing.is_program else ""
            place = _call_place(caller, str(namespace.get("__file__", "")), program)
            context = CallContext.of_running_code(function)
            self.last = Call(
                unwrap_compiled(function), args, kwargs, (), init, place, context=context
            )
            self.last.is_doubtful = enclosing.is_doubtful
            if first and _is_outermost(caller, function):
                self.last.same_as = enclosing.name
            raise Enough


def _watch_calls(
    watch: _CallWatch, namespace: Namespace
) -> contextlib.AbstractContextManager[None]:
    subject = watch.target.subject
    found = namespace.get(subject)
    if isinstance(found, type):
        return _watch_class(found, namespace, watch)
    return _watch_function(subject, namespace, watch)


@contextlib.contextmanager
def _watch_class(found: type, namespace: Namespace, watch: _CallWatch) -> Iterator[None]:
    """Record calls of instances of exactly this class in the ``with`` block, not of its
    subclasses."""
    init, forward = found.__init__, getattr(found, "forward", None)  # type: ignore[misc]

    @functools.wraps(init)
    def construct_watched(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is found:
            watch.note_constructed(self, args, kwargs)
        init(self, *args, **kwargs)

    patched: dict[str, Any] = {"__init__": construct_watched}
    if callable(forward):

        @functools.wraps(forward)
        def call_watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            body = functools.partial(forward, self, *args, **kwargs)
            if type(self) is found:
                watch.note_call(self, body, args, kwargs, namespace)
            return body()

        patched["forward"] = call_watched
    watch.patches += map(weakref.ref, patched.values())
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
def _watch_function(name: str, namespace: Namespace, watch: _CallWatch) -> Iterator[None]:
    found = namespace[name]

    @functools.wraps(found)
    def call_watched(*args: Any, **kwargs: Any) -> Any:
        body = functools.partial(found, *args, **kwargs)
        watch.note_call(found, body, args, kwargs, namespace)
        return body()

    watch.patches.append(weakref.ref(call_watched))
    namespace[name] = call_watched
    try:
        yield
    finally:
        namespace[name] = found


# -- one run of a caller for several targets ---------------------------------------------------


@dataclass(frozen=True)
class EnclosingSnapshot:
    """The callers of a target, stopped in this process at a call of the target.

    ``random_state`` and ``oracle`` are the states of the random number generators and of the fake
    tensor mode, if any.
    """

    target: Target
    number: int
    call: Call
    random_state: rng.GeneratorStates
    oracle: ChosenState | None


_here: EnclosingSnapshot | None = None
_used = False


def leave_snapshots(
    wanted: Sequence[Target],
    enclosing: Sequence[Enclosing],
    namespace: Namespace,
    stay: Callable[[], bool],
    *,
    fake: bool,
) -> EnclosingSnapshot | tuple[UncalledTarget, ...]:
    """Execute ``enclosing`` (callers of targets) once, and fork a waiting copy of the process at
    each wanted call.

    Such a copy is called a snapshot. ``wanted`` lists a target once for each call to record; these
    calls have distinct dtypes, ranks or flags of their inputs. At each wanted call ``stay`` forks;
    it returns True in the process that waits as a snapshot, and False in the process that
    continues.

    The waiting process returns the snapshot; building the target's call there returns the recorded
    call, but only once. It returns an empty tuple if the model has stored a function that records
    the calls of other targets, because the model's state then differs from a separate run. The
    process that reached the end returns the targets that were not called.
    """
    global _here
    from .. import tracing

    at: list[tuple[_CallWatch, int]] = []
    # Two targets may be methods of one class; only one of them is recorded.
    subjects: dict[str, Target] = {}
    for target in wanted:
        subjects.setdefault(target.subject, target)
    left = sum(target in subjects.values() for target in wanted)

    def watch_for(target: Target) -> _CallWatch:
        most = wanted.count(target)

        def takes_number(number: int) -> bool:
            nonlocal left
            if at or number >= most:
                return False
            if stay():
                at.append((watch, number))
                return True
            left -= 1
            if not left:
                raise Enough
            return False

        watch = _CallWatch(target, takes_number)
        return watch

    watches = [watch_for(target) for target in subjects.values()]
    with tracing.tensor_mode(fake) as mode:
        if mode is not None:
            mode.restart()
        rng.seed_generators()
        trouble = _run_all_enclosing(enclosing, namespace, watches, lambda: bool(at) or not left)
    if not at:
        return tuple(
            UncalledTarget(name, trouble.describe(name), trouble.may_use_real)
            for name in (watch.target.name for watch in watches if not watch.signatures)
        )
    watch, number = at[0]
    others = [patch for other in watches if other is not watch for patch in other.patches]
    if watch.last is None or _are_patches_referenced(others):
        return ()
    oracle = mode.oracle if mode is not None else None
    _here = EnclosingSnapshot(watch.target, number, watch.last, rng.generator_states(), oracle)
    return _here


def _run_all_enclosing(
    enclosing: Sequence[Enclosing],
    namespace: Namespace,
    watches: Sequence[_CallWatch],
    is_enough: Callable[[], bool],
) -> NotCalled:
    """Execute callers one after the other until ``is_enough`` returns True; return why a target of
    ``watches`` that was not called was not."""
    trouble: NotCalled | None = None
    for one in enclosing:
        is_called = all(watch.signatures for watch in watches)
        if one.if_uncalled and (is_called or _is_too_large(one)):
            continue
        try:
            _run_enclosing(one, namespace, watches, one.seconds)
        except NotCalled as error:
            trouble = trouble or error
        if is_enough():
            break
    return trouble or _ran_without_calling(_join_names(enclosing), watches[0].target.name)


def current_snapshot() -> EnclosingSnapshot | None:
    """Return the call of a target at which this process was forked and stopped; None in other
    processes."""
    return _here


def _are_patches_referenced(patches: Sequence[weakref.ref[Any]]) -> bool:
    """Whether the model stored one of the functions ``patches``, which replace others only while
    calls are recorded. The model may then call it later."""
    if any(patch() is not None for patch in patches):
        gc.collect()
    return any(patch() is not None for patch in patches)


def _call_of_snapshot(target: Target, number: int) -> Call | None:
    """Return the call at which this process was forked, if it is call ``number`` of the target;
    else None.

    The call is returned only once, because tracing may change its object.
    """
    global _used
    from .. import tracing

    here, fake = _here, tensors.fake_mode() is not None
    if _used or here is None or (here.target, here.number) != (target, number):
        return None
    mode = tracing.fake_mode() if fake else None
    if fake != (here.oracle is not None) or (mode is not None and mode.inverted_choices):
        return None
    _used = True
    if mode is not None and here.oracle is not None:
        mode.oracle = here.oracle
    rng.restore_generators(here.random_state)
    return here.call


# -- properties of a call ---------------------------------------------------------------------


def _call_signature(tree: Any) -> Hashable:
    """Return a key of a call's inputs: containers, dtypes, ranks, equal sizes and flags.

    Sizes other than 0 and 1, which Dynamo specializes, do not count: a network calls a convolution
    with dozens of sizes.
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


def _copy_tensors(tree: T) -> T:
    """Return a nested structure with copies of its tensors, because later code may write to them.

    Parameters are not copied: Dynamo treats them differently from other tensors.
    """
    import torch

    from ..torch_internals.trees import pytree
    from ..tracing.variations import resize_tensor

    known: dict[int, torch.Tensor] = {}

    def copy_leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
            return value
        if id(value) not in known:
            known[id(value)] = resize_tensor(value, {})
        return known[id(value)]

    return pytree.tree_map(copy_leaf, tree)  # type: ignore[no-any-return]


def _is_outermost(frame: FrameType | None, function: Any) -> bool:
    """Whether the engine itself called ``function`` to execute the caller, so that this is not a
    call that the caller makes.

    ``frame`` is the frame of the call.
    """
    from ..tracing.drive import BOTTOM

    while frame is not None and frame.f_code is not BOTTOM:
        frame = frame.f_back
    return frame is not None and frame.f_locals["function"] is function


def _call_place(frame: FrameType | None, path: str, program: str) -> str:
    """Return a clause on where a call is made: the line in the file at ``path``, or the program.

    Empty if neither is known.
    """
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back
    if frame is None:
        return f"as called by {program}" if program else ""
    name = _ANONYMOUS.sub("", code_objects.qualified_name(frame))
    words = f"as called by {name}, line {frame.f_lineno}"
    return words if program in ("", name) else f"{words}, in {program}"
