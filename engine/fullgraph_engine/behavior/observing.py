"""Execute test calls (cases) and write down their results, side effects and coverage."""

from __future__ import annotations

import contextlib
import dis
import hashlib
import re
import tempfile
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
from .budget import ProcessorBudget
from .cases import Case, CasePlan, PreparedCall, apply_to_module, is_floating, prepare_call
from .clock import use_fake_clock
from .coverage import CoverageTracer, ReachedCode, RequiredCoverage, required_coverage
from .facts import (
    CallFact,
    FactCollector,
    MemoryOwners,
    TensorData,
    raw_bytes,
    shorten_words,
    tensor_digest,
    without_addresses,
)
from .files import CaseWriter, ObservedCall, ObservedCase
from .gradients import gradients_of_outputs
from .iterables import replace_iterators
from .output import CapturedOutput, OutputCapture
from .state import collect_state, subject_of

_RAISE = dis.opmap["RAISE_VARARGS"]
SHAKE = 1e-7
"""Relative change of the inputs between the two double-precision runs of the original code."""

_RANDOM = re.compile(r"rand\w*_like|\w*dropout|bernoulli|multinomial|normal|poisson|rrelu")
"""Names of functions that draw random numbers for a given tensor and return a new one."""

_CASTS = ("to", "type", "half", "bfloat16", "float")
"""Names of methods that convert a tensor to another dtype. Compiled code may leave out the rounding
to 16 bits, so double precision does not do it either."""

TensorTransform = Union[Callable[[torch.Tensor], torch.Tensor], None]


class DoublePrecisionMode(torch.overrides.TorchFunctionMode):
    """A mode that converts the result of every torch function to double precision.

    Random numbers are drawn in single precision, so that they are the same as without the mode.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if _RANDOM.fullmatch(name):
            return _call_in_single(function, args, kwargs)
        returned = function(*args, **kwargs)
        is_cast = name in _CASTS and is_floating(args[0]) and is_floating(returned)
        if is_cast and returned.dtype != args[0].dtype:
            return to_double(args[0]).clone()
        return pytree.tree_map(to_double, returned)


def _call_in_single(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function in single precision, so that it draws the same random numbers; return its
    results in double precision."""
    singles = pytree.tree_map(_to_single, (args, kwargs))
    returned = function(*singles[0], **singles[1])
    leaves = map(pytree.tree_leaves, ((args, kwargs), singles))
    for given, single in zip(*leaves, strict=True):
        if returned is single:  # dropout in evaluation mode returns its argument
            return given
    return pytree.tree_map(to_double, returned)


def to_double(value: Any) -> Any:
    """Convert a floating-point tensor to double precision; return other values unchanged."""
    if is_floating(value):
        return value.to(torch.promote_types(value.dtype, torch.float64))
    return value


def _to_single(value: Any) -> Any:
    is_double = isinstance(value, torch.Tensor) and value.dtype == torch.float64
    return value.to(torch.float32) if is_double else value


def shake(tensor: torch.Tensor, roundings: float, seed: int) -> torch.Tensor:
    """Change each element of a tensor by a random amount as small as ``roundings`` rounding errors
    of its dtype."""
    noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed))
    scale = roundings * torch.finfo(tensor.dtype).eps
    return tensor * (1 + scale * noise.to(tensor.dtype))


def add_rounding_noise(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to double precision, and change each element by a random amount as small as
    the rounding error of single precision.
    """
    noise = torch.randn(
        tensor.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    wide: torch.Tensor = to_double(tensor)
    return wide * (1 + SHAKE * noise)


@dataclass
class CallBuilder:
    """A builder of calls with the user's example inputs.

    With ``shared``, it builds one call and returns the same one each time.
    """

    tracee: Tracee
    shared: bool = False
    _known: Call | None = None

    def build_call(self) -> Call:
        """Build the function or module and its example inputs. This runs user code, whose
        exceptions propagate.

        Raises:
            ProbeError: The inputs do not match the parameters of the function or module.
        """
        if self._known is not None:
            return self._known
        call = replace_iterators(self.tracee.call())
        if self.shared:
            self._known = call
        return call


def prepare_case(call: Call, case: Case, alter: TensorTransform = None) -> PreparedCall:
    """Set the module to the mode, dtype and parameters of a test call, and build its arguments.

    ``alter``, if given, converts each floating-point tensor, for example to double precision.
    """
    subject = subject_of(call.function)
    if isinstance(subject, torch.nn.Module):
        apply_to_module(subject, case, alter)
    return prepare_call(call, case, alter)


@contextlib.contextmanager
def case_context(case: Case) -> Iterator[None]:
    """Apply the conditions of a test call, such as ``torch.no_grad()``, to the ``with`` block."""
    with contextlib.nullcontext() if case.recording else torch.no_grad():
        yield


def observe_cases(tracee: Tracee, request: Observe, part: str, probe: int) -> None:
    """Execute the test calls for one set of example inputs, and write to files what they did.

    ``request`` contains the calls (cases); ``probe`` is the index of the example inputs. ``part``
    is the first part of the name of the files.

    Raises:
        OSError: The files cannot be written.
    """
    folder = Path(tempfile.gettempdir(), FOLDER)
    packed = request.cases[probe] if probe < len(request.cases) else ""
    plan = CasePlan.unpack(packed)
    cases = list(enumerate(plan.cases))
    required = required_coverage(tracee.text, tracee.path, frozenset(request.lines))
    budget = ProcessorBudget(request.seconds)
    if request.only:
        only = request.only[probe] if probe < len(request.only) else ()
        if (
            plan.shared and not request.double
        ):  # with shared objects, a test call depends on the state that earlier calls left
            cases = cases[: max(only, default=-1) + 1]
        else:
            cases = [(number, case) for number, case in cases if number in only]
    if not request.double:
        CaseObserver(tracee, required, plan, CaseWriter(folder, f"{part}-{probe}")).run_cases(
            cases, budget
        )
        return
    for name, alter in (("exact", to_double), ("near", add_rounding_noise)):
        CaseObserver(
            tracee, required, plan, CaseWriter(folder, f"{name}-{probe}"), alter
        ).run_cases(cases, budget)


class CaseObserver:
    """An executor of test calls (cases) that records what each call does.

    ``alter``, if given, converts the tensors of the function or module to double precision.
    """

    def __init__(
        self,
        tracee: Tracee,
        required: RequiredCoverage,
        plan: CasePlan,
        out: CaseWriter,
        alter: TensorTransform = None,
    ) -> None:
        self._tracee, self._required, self._plan, self._out = tracee, required, plan, out
        self._alter = alter
        # In double precision, build a new target for each case, so that none is converted twice.
        self._calls = CallBuilder(tracee, plan.shared and alter is None)
        self._coverage = CoverageTracer(tracee.path, required.lines)
        self._capture = OutputCapture()
        self._built = ReachedCode()

    def run_cases(self, cases: Sequence[tuple[int, Case]], budget: ProcessorBudget) -> None:
        """Execute numbered test calls until the time in ``budget`` is used up, but at least one
        call.
        """
        for at, (number, case) in enumerate(cases):
            if at and budget.spent:
                break
            self._out.write_case(self._observe_case(number, case))
        self._out.close()

    def _observe_case(self, number: int, case: Case) -> ObservedCase:
        try:
            with self._coverage.trace() as built, use_fake_clock(self._tracee.namespace):
                call = self._calls.build_call()
            self._built.update(built)  # a shared call is built only once
            prepared = prepare_case(call, case, self._alter)
            inputs, outside = prepared.words, prepared.outside
        except Exception as error:  # the changed code may still accept these inputs
            return ObservedCase(
                number,
                "",
                reason=(
                    "the object or the inputs of the call cannot be created: "
                    f"{texts.type_and_message(error)}"
                ),
            )
        self._out.write_case(ObservedCase(number, inputs))
        with self._coverage.trace() as reached:
            first, before, drawn = self._observe_call(call, case, 0)
            calls = [first]
            if self._plan.twice:
                calls.append(self._observe_call(call, case, 1)[0])
        reached.update(self._built)
        return ObservedCase(
            number,
            inputs,
            before,
            tuple(calls),
            tuple(sorted(reached.lines & self._required.lines)),
            tuple(sorted(tuple(side) for side in reached.sides & self._required.sides)),
            drawn,
            outside=outside,
        )

    def _observe_call(
        self, call: Call, case: Case, number: int
    ) -> tuple[ObservedCall, tuple[CallFact, ...], bool]:
        """Make one call with the inputs of a test call; return its outcome, the state before it,
        and whether it drew random numbers.

        ``number`` is 0 for the first call and 1 for its repetition.
        """
        store = _TensorStore()
        # A second call finds the object as the first one left it.
        prepared_call = (prepare_call if number else prepare_case)(call, case, self._alter)
        before, _ = self._collect_state(store, prepared_call, MemoryOwners())
        rng.seed_generators(case.seed)
        start = _digest_state(rng.generator_states())
        result, error, output = self._call_prepared(prepared_call, case)
        end = rng.generator_states()
        memory = MemoryOwners()
        after, state_tensors = self._collect_state(store, prepared_call, memory)
        home = str(self._tracee.namespace.get("__name__"))
        collector = FactCollector("result", store.add, memory, home)
        facts = [_outcome_fact(error)]
        if error is None:
            collector.collect("the result", result)
        facts += collector.facts
        changes = _find_changes(before, after)
        facts += changes
        facts += _output_facts(output)
        facts.append(_random_state_fact(end))
        if error is None and case.is_finite:
            changed = {fact.path for fact in changes}
            ends = [
                one
                for one in state_tensors
                if f"{one[0]} afterwards" in changed and not one[1].is_leaf
            ]
            words = "the gradient, backpropagated from the state after the call, of"
            facts += self._collect_gradients(prepared_call, ends, store, words, retain=True)
            # Free the graph as in training: the next call cannot backpropagate through this call.
            facts += self._collect_gradients(
                prepared_call, collector.tensors, store, "the gradient of", retain=False
            )
        seen = ObservedCall(
            "returned" if error is None else "raised",
            tuple(self._store_fact(fact, store) for fact in facts),
            error is not None and _raised_by_file(error, self._tracee.path),
        )
        return seen, tuple(before.values()), start != _digest_state(end)

    def _call_prepared(
        self, prepared_call: PreparedCall, case: Case
    ) -> tuple[Any, BaseException | None, CapturedOutput]:
        result, error = None, None
        double = DoublePrecisionMode() if self._alter is not None else contextlib.nullcontext()
        clock = use_fake_clock(self._tracee.namespace)
        with self._capture.capture() as output, case_context(case), clock, double:
            try:
                result = tracing.call_eagerly(
                    prepared_call.function, prepared_call.args, prepared_call.kwargs
                )
            except BaseException as raised:
                error = raised
        return result, error, output

    def _collect_state(
        self, store: _TensorStore, prepared_call: PreparedCall, memory: MemoryOwners
    ) -> tuple[dict[str, CallFact], list[tuple[str, torch.Tensor]]]:
        """Collect everything that a call can change; return it by path, such as ``self.weight``.

        Also return the tensors of this state with their paths. ``store`` receives the contents of
        tensors, and ``memory`` detects tensors that share memory.
        """
        inputs = FactCollector("input", store.add, memory)
        for name, value in prepared_call.arguments.items():
            inputs.collect(f"`{name}`", value)
        state = FactCollector("state", store.add, memory)
        collect_state(state, prepared_call.function, self._tracee.namespace)
        return {fact.path: fact for fact in (*inputs.facts, *state.facts)}, state.tensors

    def _collect_gradients(
        self,
        prepared_call: PreparedCall,
        outputs: Sequence[tuple[str, torch.Tensor]],
        store: _TensorStore,
        words: str,
        *,
        retain: bool,
    ) -> list[CallFact]:
        """Run the backward pass of a call and collect the gradients of inputs and parameters.

        The backward pass starts from the sum of all ``outputs`` with random weights. ``words``
        describe the inputs. ``retain`` keeps the graph for another backward pass.
        """
        ends = {
            path: tensor for path, tensor in outputs if is_floating(tensor) and tensor.requires_grad
        }
        inputs = dict(prepared_call.differentiated)
        subject = subject_of(prepared_call.function)
        if isinstance(subject, torch.nn.Module):
            for name, parameter in subject.named_parameters():
                if parameter.requires_grad and is_floating(parameter):
                    inputs[f"self.{name}"] = parameter
        if not ends or not inputs:
            return []
        try:
            found = gradients_of_outputs(
                list(ends.values()), list(inputs.values()), names=ends, retain_graph=retain
            )
        except Exception as error:
            return [
                CallFact(
                    "gradient",
                    f"{words} anything",
                    f"raise {without_addresses(texts.type_and_message(error))}",
                )
            ]
        collector = FactCollector("gradient", store.add, MemoryOwners())
        for name, gradient in zip(inputs, found, strict=True):
            collector.collect(f"{words} {name}", gradient)
        return [fact for fact in collector.facts if fact.aspect == "gradient"]

    def _store_fact(self, fact: CallFact, store: _TensorStore) -> CallFact:
        """Write the elements of an observed tensor from ``store`` to the file; return the fact with
        a reference to them.
        """
        if fact.data is None:
            return fact
        return replace(fact, data=self._out.store_tensor(store.tensors[fact.data.digest]))


class _TensorStore:
    """A store of tensors by digest, in memory; a tensor is written to the file only if a fact about
    it is reported.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def add(self, tensor: torch.Tensor) -> TensorData:
        key = tensor_digest(tensor)
        kind = str(tensor.dtype).removeprefix("torch.")
        self.tensors[key] = tensor
        return TensorData(kind, tuple(tensor.shape), 0, 0, key)


def _outcome_fact(error: BaseException | None) -> CallFact:
    words = (
        "returns" if error is None else f"raises {without_addresses(texts.type_and_message(error))}"
    )
    return CallFact("outcome", "the call", shorten_words(words))


def _raised_by_file(error: BaseException, path: str) -> bool:
    """Whether a ``raise`` statement in the file ``path`` raised the exception."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != path:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _find_changes(before: dict[str, CallFact], after: dict[str, CallFact]) -> list[CallFact]:
    """Return the values that a call changed, in their state after the call, and the values that it
    removed.
    """
    changed = [fact for path, fact in after.items() if before.get(path) != fact]
    removed = [
        CallFact(fact.aspect, path, "is gone") for path, fact in before.items() if path not in after
    ]
    return [replace(fact, path=f"{fact.path} afterwards") for fact in (*changed, *removed)]


def _output_facts(output: CapturedOutput) -> list[CallFact]:
    found = [
        CallFact("stdout", "stdout", output.stdout),
        CallFact("stderr", "stderr", output.stderr),
        CallFact("warning", "the warnings", "\n".join(output.warnings)),
        CallFact("log", "the log", "\n".join(output.logs)),
        CallFact("files", "the changes to files", "\n".join(output.files)),
    ]
    return [
        replace(fact, words=shorten_words(without_addresses(fact.words)))
        for fact in found
        if fact.words
    ]


def _random_state_fact(state: rng.GeneratorStates) -> CallFact:
    return CallFact("random", "the random state", _digest_state(state))


def _digest_state(state: rng.GeneratorStates) -> str:
    """Return a digest of the states of all random number generators."""
    numpy = b""
    if state.numpy is not None:
        numpy = b"".join(
            part.tobytes() if hasattr(part, "tobytes") else repr(part).encode()
            for part in state.numpy
        )
    version, numbers, following = state.python
    python = array("Q", numbers).tobytes() + repr((version, following)).encode()
    content = bytes(raw_bytes(state.torch)) + python + numpy
    return hashlib.blake2b(content, digest_size=8).hexdigest()
