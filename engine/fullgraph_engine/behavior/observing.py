"""Executing cases and writing down what they did."""

from __future__ import annotations

import contextlib
import dis
import hashlib
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Union

import torch

from .. import texts, tracing
from ..protocol import Observe
from ..protocol.behavior import FOLDER
from ..targets import Call, Tracee, rng
from ..torch_internals.trees import pytree
from .budget import Budget
from .cases import Case, Plan, Prepared, is_floating, prepare, set_module
from .clock import steady
from .coverage import Coverage, Wanted, wanted
from .facts import Data, Fact, Memory, Walk, cut, digest, raw_bytes, without_addresses
from .files import SeenCall, SeenCase, Writer
from .iterables import taken_apart
from .output import Capture, Output
from .state import subject_of, walk_state

_RAISE = dis.opmap["RAISE_VARARGS"]
SHAKE = 1e-7
"""By how much inputs differ, relative to themselves, between two runs in double precision."""

Alter = Union[Callable[[torch.Tensor], torch.Tensor], None]


class Double(torch.overrides.TorchFunctionMode):
    """Has everything computed in double precision."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return pytree.tree_map(widened, function(*args, **(kwargs or {})))


def widened(value: Any) -> Any:
    """In double precision, if it has a precision."""
    if is_floating(value):
        return value.to(torch.promote_types(value.dtype, torch.float64))
    return value


def shaken(tensor: torch.Tensor) -> torch.Tensor:
    """In double precision, and off by about what rounding to single precision would be."""
    noise = torch.randn(
        tensor.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    wide: torch.Tensor = widened(tensor)
    return wide * (1 + SHAKE * noise)


@dataclass
class Calls:
    """Makes the calls of cases of one target; only once, if it is ``shared``."""

    tracee: Tracee
    shared: bool = False
    _known: Call | None = None

    def call(self) -> Call:
        """The call of the probe. Runs user code, whose exceptions propagate.

        Raises:
            ProbeError: the probe does not fit.
        """
        if self._known is not None:
            return self._known
        call = taken_apart(self.tracee.call())
        if self.shared:
            self._known = call
        return call


def prepared(call: Call, case: Case, alter: Alter = None) -> Prepared:
    """The arguments of a case, and the module as it wants it."""
    subject = subject_of(call.function)
    if isinstance(subject, torch.nn.Module):
        set_module(subject, case, alter)
    return prepare(call, case, alter)


@contextlib.contextmanager
def environment(case: Case) -> Iterator[None]:
    """What is around the call of a case."""
    with contextlib.nullcontext() if case.recording else torch.no_grad():
        yield


def observe(tracee: Tracee, order: Observe, part: str, probe: int) -> None:
    """Execute the cases that an order has for a probe and write down what they did.

    Raises:
        OSError: nothing can be written.
    """
    folder = Path(tempfile.gettempdir(), FOLDER)
    packed = order.cases[probe] if probe < len(order.cases) else ""
    plan = Plan.unpacked(packed)
    cases = list(enumerate(plan.cases))
    asked = wanted(tracee.text, tracee.path, frozenset(order.lines))
    budget = Budget(order.seconds)
    if order.only:
        only = order.only[probe] if probe < len(order.only) else ()
        if plan.shared and not order.double:  # a case finds what those before have left
            cases = cases[: max(only, default=-1) + 1]
        else:
            cases = [(number, case) for number, case in cases if number in only]
    if not order.double:
        Observer(tracee, asked, plan, Writer(folder, f"{part}-{probe}")).run(cases, budget)
        return
    for name, alter in (("exact", widened), ("near", shaken)):
        Observer(tracee, asked, plan, Writer(folder, f"{name}-{probe}"), alter).run(cases, budget)


class Observer:
    """Of one target. ``alter`` has it computed in double precision."""

    def __init__(
        self, tracee: Tracee, asked: Wanted, plan: Plan, out: Writer, alter: Alter = None
    ) -> None:
        self._tracee, self._asked, self._plan, self._out = tracee, asked, plan, out
        self._alter = alter
        # In double precision it is made anew: what is shared would be altered again and again.
        self._calls = Calls(tracee, plan.shared and alter is None)
        self._coverage = Coverage(tracee.path, asked.lines)
        self._capture = Capture()

    def run(self, cases: Sequence[tuple[int, Case]], budget: Budget) -> None:
        """All of them, or as many as there is time for; at least one."""
        for at, (number, case) in enumerate(cases):
            if at and budget.spent:
                break
            self._out.case(self._case(number, case))
        self._out.close()

    def _case(self, number: int, case: Case) -> SeenCase:
        try:
            with steady(self._tracee.namespace):
                call = self._calls.call()
            inputs = prepared(call, case, self._alter).words
        except Exception as error:  # the other text need not be so
            return SeenCase(number, "", reason=f"it cannot be built: {texts.described(error)}")
        self._out.case(SeenCase(number, inputs))
        with self._coverage.noting() as reached:
            first, before, drawn = self._call(call, case, 0)
            calls = [first]
            if self._plan.twice:
                calls.append(self._call(call, case, 1)[0])
        return SeenCase(
            number,
            inputs,
            before,
            tuple(calls),
            tuple(sorted(reached.lines & self._asked.lines)),
            tuple(sorted(tuple(side) for side in reached.sides & self._asked.sides)),
            drawn,
        )

    def _call(self, call: Call, case: Case, number: int) -> tuple[SeenCall, tuple[Fact, ...], bool]:
        """One call, the facts of what it was given, and whether it drew random numbers."""
        known = _Known()
        # The object of a second call is as the first has left it.
        given = (prepare if number else prepared)(call, case, self._alter)
        before, _ = self._surroundings(known, given, Memory())
        rng.begin_again(case.seed)
        start = _digest_of(rng.state())
        result, error, output = self._made(given, case)
        end = rng.state()
        memory = Memory()
        after, kept = self._surroundings(known, given, memory)
        home = str(self._tracee.namespace.get("__name__"))
        walk = Walk("result", known.keep, memory, home)
        facts = [_outcome(error)]
        if error is None:
            walk.value("the result", result)
        facts += walk.facts
        changes = _changes(before, after)
        facts += changes
        facts += _printed(output)
        facts.append(_random(end))
        if error is None and case.is_finite:
            changed = {fact.path for fact in changes}
            ends = [one for one in kept if f"{one[0]} afterwards" in changed and not one[1].is_leaf]
            words = "by what is kept, the gradient of"
            facts += self._gradients(given, ends, known, words, retain=True)
            # As in training, the next call cannot go back through this one.
            facts += self._gradients(given, walk.tensors, known, "the gradient of", retain=False)
        seen = SeenCall(
            "returned" if error is None else "raised",
            tuple(self._written(fact, known) for fact in facts),
            error is not None and _is_own(error, self._tracee.path),
        )
        return seen, tuple(before.values()), start != _digest_of(end)

    def _made(self, given: Prepared, case: Case) -> tuple[Any, BaseException | None, Output]:
        result, error = None, None
        double = Double() if self._alter is not None else contextlib.nullcontext()
        clock = steady(self._tracee.namespace)
        with self._capture.output() as output, environment(case), clock, double:
            try:
                result = tracing.call_eagerly(given.function, given.args, given.kwargs)
            except BaseException as raised:
                error = raised
        return result, error, output

    def _surroundings(
        self, known: _Known, given: Prepared, memory: Memory
    ) -> tuple[dict[str, Fact], list[tuple[str, torch.Tensor]]]:
        """Facts of all that a call can change, by their paths, and tensors of the state."""
        inputs = Walk("input", known.keep, memory)
        for name, value in given.arguments.items():
            inputs.value(f"`{name}`", value)
        state = Walk("state", known.keep, memory)
        walk_state(state, given.function, self._tracee.namespace)
        return {fact.path: fact for fact in (*inputs.facts, *state.facts)}, state.tensors

    def _gradients(
        self,
        given: Prepared,
        made: Sequence[tuple[str, torch.Tensor]],
        known: _Known,
        words: str,
        *,
        retain: bool,
    ) -> list[Fact]:
        """The gradients of inputs and parameters, of a random projection of all that was made."""
        ends = {path: one for path, one in made if is_floating(one) and one.requires_grad}
        wanted_of = dict(given.differentiated)
        subject = subject_of(given.function)
        if isinstance(subject, torch.nn.Module):
            for name, parameter in subject.named_parameters():
                if parameter.requires_grad and is_floating(parameter):
                    wanted_of[f"self.{name}"] = parameter
        if not ends or not wanted_of:
            return []
        try:
            found = torch.autograd.grad(
                list(ends.values()),
                list(wanted_of.values()),
                [_weights(one, path) for path, one in ends.items()],
                retain_graph=retain,
                allow_unused=True,
            )
        except Exception as error:
            return [
                Fact(
                    "gradient",
                    f"{words} anything",
                    f"raise {without_addresses(texts.described(error))}",
                )
            ]
        walk = Walk("gradient", known.keep, Memory())
        for name, gradient in zip(wanted_of, found, strict=True):
            walk.value(f"{words} {name}", gradient)
        return [fact for fact in walk.facts if fact.aspect == "gradient"]

    def _written(self, fact: Fact, known: _Known) -> Fact:
        """A fact whose numbers are in the file."""
        if fact.data is None:
            return fact
        return replace(fact, data=self._out.keep(known.tensors[fact.data.digest]))


class _Known:
    """Tensors by the digests of their bytes: only those of facts that are told are written."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def keep(self, tensor: torch.Tensor) -> Data:
        named = digest(tensor)
        kind = str(tensor.dtype).removeprefix("torch.")
        self.tensors[named] = tensor
        return Data(kind, tuple(tensor.shape), 0, 0, named)


def _weights(tensor: torch.Tensor, path: str) -> torch.Tensor:
    """A random projection, always the same for what is at a place."""
    generator = torch.Generator().manual_seed(zlib.crc32(path.encode()))
    made = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
    return made.to(tensor.dtype).to(tensor.device)


def _outcome(error: BaseException | None) -> Fact:
    words = "returns" if error is None else f"raises {without_addresses(texts.described(error))}"
    return Fact("outcome", "the call", cut(words))


def _is_own(error: BaseException, path: str) -> bool:
    """Whether a statement of the file has raised it, not what that calls."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != path:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _changes(before: dict[str, Fact], after: dict[str, Fact]) -> list[Fact]:
    """What is another one after a call."""
    changed = [fact for path, fact in after.items() if before.get(path) != fact]
    gone = [
        Fact(fact.aspect, path, "is gone") for path, fact in before.items() if path not in after
    ]
    return [replace(fact, path=f"{fact.path} afterwards") for fact in (*changed, *gone)]


def _printed(output: Output) -> list[Fact]:
    found = [
        Fact("stdout", "stdout", output.stdout),
        Fact("stderr", "stderr", output.stderr),
        Fact("warning", "the warnings", "\n".join(output.warnings)),
        Fact("log", "the log", "\n".join(output.logs)),
    ]
    return [replace(one, words=cut(without_addresses(one.words))) for one in found if one.words]


def _random(state: rng.State) -> Fact:
    return Fact("random", "the random state", _digest_of(state))


def _digest_of(state: rng.State) -> str:
    """Of where all generators are."""
    numpy = b""
    if state.numpy is not None:
        numpy = b"".join(
            one.tobytes() if hasattr(one, "tobytes") else repr(one).encode() for one in state.numpy
        )
    version, numbers, following = state.python
    python = array("Q", numbers).tobytes() + repr((version, following)).encode()
    whole = bytes(raw_bytes(state.torch)) + python + numpy
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
