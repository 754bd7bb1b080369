"""Execute cases and write down what they did."""

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
"""Relative change of the inputs between the two double-precision runs."""

Alter = Union[Callable[[torch.Tensor], torch.Tensor], None]


class Double(torch.overrides.TorchFunctionMode):
    """A mode that converts the result of every torch function to double precision."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return pytree.tree_map(widened, function(*args, **(kwargs or {})))


def widened(value: Any) -> Any:
    """Convert a floating-point tensor to double precision; return other values unchanged."""
    if is_floating(value):
        return value.to(torch.promote_types(value.dtype, torch.float64))
    return value


def shaken(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to double precision and add noise as large as single-precision rounding."""
    noise = torch.randn(
        tensor.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    wide: torch.Tensor = widened(tensor)
    return wide * (1 + SHAKE * noise)


@dataclass
class Calls:
    """A builder of the calls of one target; with ``shared``, it builds only one."""

    tracee: Tracee
    shared: bool = False
    _known: Call | None = None

    def call(self) -> Call:
        """Return the call of the probe. Runs user code, whose exceptions propagate.

        Raises:
            ProbeError: The probe does not fit.
        """
        if self._known is not None:
            return self._known
        call = taken_apart(self.tracee.call())
        if self.shared:
            self._known = call
        return call


def prepared(call: Call, case: Case, alter: Alter = None) -> Prepared:
    """Apply a case to the module and build the arguments of its call."""
    subject = subject_of(call.function)
    if isinstance(subject, torch.nn.Module):
        set_module(subject, case, alter)
    return prepare(call, case, alter)


@contextlib.contextmanager
def environment(case: Case) -> Iterator[None]:
    """Apply the conditions under which a case is called, such as ``torch.no_grad()``."""
    with contextlib.nullcontext() if case.recording else torch.no_grad():
        yield


def observe(tracee: Tracee, order: Observe, part: str, probe: int) -> None:
    """Execute the cases that an order has for a probe, and write down what they did.

    Raises:
        OSError: The observations cannot be written.
    """
    folder = Path(tempfile.gettempdir(), FOLDER)
    packed = order.cases[probe] if probe < len(order.cases) else ""
    plan = Plan.unpacked(packed)
    cases = list(enumerate(plan.cases))
    asked = wanted(tracee.text, tracee.path, frozenset(order.lines))
    budget = Budget(order.seconds)
    if order.only:
        only = order.only[probe] if probe < len(order.only) else ()
        if plan.shared and not order.double:  # a case depends on the state that earlier cases left
            cases = cases[: max(only, default=-1) + 1]
        else:
            cases = [(number, case) for number, case in cases if number in only]
    if not order.double:
        Observer(tracee, asked, plan, Writer(folder, f"{part}-{probe}")).run(cases, budget)
        return
    for name, alter in (("exact", widened), ("near", shaken)):
        Observer(tracee, asked, plan, Writer(folder, f"{name}-{probe}"), alter).run(cases, budget)


class Observer:
    """An observer of one target; ``alter`` converts its tensors to double precision."""

    def __init__(
        self, tracee: Tracee, asked: Wanted, plan: Plan, out: Writer, alter: Alter = None
    ) -> None:
        self._tracee, self._asked, self._plan, self._out = tracee, asked, plan, out
        self._alter = alter
        # In double precision the target is built for each case, so that it is altered only once.
        self._calls = Calls(tracee, plan.shared and alter is None)
        self._coverage = Coverage(tracee.path, asked.lines)
        self._capture = Capture()

    def run(self, cases: Sequence[tuple[int, Case]], budget: Budget) -> None:
        """Execute the cases until the time is used up; at least one."""
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
        except Exception as error:  # the other text may work
            return SeenCase(
                number, "", reason=f"it cannot be built: {texts.type_and_message(error)}"
            )
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
        """Execute one call; return it, the facts before it, and whether it drew random numbers."""
        known = _Known()
        # A second call finds the object as the first one left it.
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
            # As in training, the next call cannot backpropagate through this one.
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
        """Collect facts of all that a call can change, by path, and the tensors of the state."""
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
        """Collect the gradients of inputs and parameters, from a random projection of outputs."""
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
                    f"raise {without_addresses(texts.type_and_message(error))}",
                )
            ]
        walk = Walk("gradient", known.keep, Memory())
        for name, gradient in zip(wanted_of, found, strict=True):
            walk.value(f"{words} {name}", gradient)
        return [fact for fact in walk.facts if fact.aspect == "gradient"]

    def _written(self, fact: Fact, known: _Known) -> Fact:
        """Store the numbers of a fact in the file; return the fact with the reference."""
        if fact.data is None:
            return fact
        return replace(fact, data=self._out.keep(known.tensors[fact.data.digest]))


class _Known:
    """A store of tensors by digest; only tensors of reported facts are written to the file."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def keep(self, tensor: torch.Tensor) -> Data:
        named = digest(tensor)
        kind = str(tensor.dtype).removeprefix("torch.")
        self.tensors[named] = tensor
        return Data(kind, tuple(tensor.shape), 0, 0, named)


def _weights(tensor: torch.Tensor, path: str) -> torch.Tensor:
    """Return random weights that depend only on the path of a tensor."""
    generator = torch.Generator().manual_seed(zlib.crc32(path.encode()))
    made = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
    return made.to(tensor.dtype).to(tensor.device)


def _outcome(error: BaseException | None) -> Fact:
    words = (
        "returns" if error is None else f"raises {without_addresses(texts.type_and_message(error))}"
    )
    return Fact("outcome", "the call", cut(words))


def _is_own(error: BaseException, path: str) -> bool:
    """Whether a ``raise`` statement in the file raised an exception, not a function it calls."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != path:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _changes(before: dict[str, Fact], after: dict[str, Fact]) -> list[Fact]:
    """Return facts that differ after a call, and those that are gone."""
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
    """Return a digest of the states of all random number generators."""
    numpy = b""
    if state.numpy is not None:
        numpy = b"".join(
            one.tobytes() if hasattr(one, "tobytes") else repr(one).encode() for one in state.numpy
        )
    version, numbers, following = state.python
    python = array("Q", numbers).tobytes() + repr((version, following)).encode()
    whole = bytes(raw_bytes(state.torch)) + python + numpy
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
