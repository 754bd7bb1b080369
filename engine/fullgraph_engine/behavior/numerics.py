"""Judge whether the code that Inductor generates computes the right numbers.

Compiled results may differ from eager results without being wrong, because rounding depends on the
order of operations. So both are compared with the same call in float64.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import texts, tracing
from ..protocol import NumericsVerdict
from ..repro.graphs.oracle import copy_inputs
from ..targets import ProbeError, Tracee, rng
from ..torch_internals import dynamo
from ..torch_internals.trees import pytree
from ..tracing import nodes
from ..tracing.drive import use_real_backends
from ..tracing.recording import Stack
from .backend import prepare_inductor
from .budget import ProcessorBudget
from .cases import Case, is_floating
from .compiled_calls import (
    COMPARABLE,
    call_case,
    call_in_double,
    calls_to_compile,
    describe_call,
    describe_deviation,
    equal_tensors,
    error_text,
    gradients_of_leaves,
    is_comparable,
    largest_element,
    prepare_comparison,
    relative_error,
)
from .observing import (
    CallBuilder,
    DoublePrecisionMode,
    add_rounding_noise,
    prepare_case,
    shake,
    to_double,
)

_SEARCH_SECONDS = 90.0
"""Maximum seconds of processor time to find the operation at which compiled results become wrong;
each step of the search compiles a part of the graph."""

_SHAKES = 16
"""Number of eager calls with slightly changed inputs that show which elements are unstable."""
_CONTINUOUS = 0.25
"""Minimum share of elements that change with the inputs, in a continuous result. Other elements may
be constant, for example behind a ``relu``.
"""
_EXPLAINED_FOR_EACH_EXCEPTION = 20
"""Minimum number of elements of a discrete result that differ, for each element among them that
rounding does not explain.

Slightly changed inputs find most, but not all, unstable elements.
"""
_NO_MEMORY = (
    "Memory ran out during the comparison; raise the setting `memory-limit`, or use a smaller "
    "input."
)
_NO_REFERENCE = (
    "A float64 run does not show which result is right, for example because the code draws "
    "different random numbers in it."
)
_NO_FLOAT64 = (
    "The code does not run in float64, so no reference shows which result is right; remove what "
    "fixes the dtype to find out."
)
_UNRELIABLE = (
    "Eager results change as much when the inputs change in their last bits, so no result is "
    "reliable; try better conditioned inputs."
)
Graph = torch.fx.GraphModule


@dataclass(frozen=True)
class JudgedNumerics:
    """The verdict on the compiled results of a target and, if they are wrong, their cause.

    ``operation`` is the first operation of Dynamo's graph whose compiled result is wrong, such as
    ``softmax``. ``stack`` is the user's stack at this operation, without columns. Both are empty if
    the operation was not found. ``is_captured_wrong``: Dynamo's graphs give the wrong result even
    in eager mode, so that Inductor is not the cause.
    """

    verdict: NumericsVerdict
    operation: str = ""
    stack: Stack = ()
    is_captured_wrong: bool = False


def judge_numerics(tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> JudgedNumerics:
    """Judge the compiled results of a function or module: compare them, and eager results, with
    float64 results.

    The function or module is called with its example inputs, for inference and for training.
    ``let_start`` is called with names of programs that Inductor starts, such as a C++ compiler, and
    permits this process to start them. The caller must end this process after the call.
    """
    if obstacle := prepare_inductor(let_start):
        return _no_verdict(obstacle)
    prepare_comparison()
    try:
        with use_real_backends():
            return compare_calls(tracee)
    except ProbeError as error:
        return _no_verdict(str(error))
    except Exception as error:
        if not texts.is_out_of_memory(error):
            raise
        return _no_verdict(_NO_MEMORY)


def _no_verdict(reason: str) -> JudgedNumerics:
    return JudgedNumerics(NumericsVerdict("unknown", reason=reason))


def compare_calls(tracee: Tracee, backend: Any = "inductor") -> JudgedNumerics:
    """Judge the results of a function or module that ``backend`` compiles, in this process."""
    eager_calls, repeated_calls, compiled_calls = (
        CallBuilder(tracee, shared=True) for _ in range(3)
    )
    function = compiled_calls.build_call().function
    compiled: Any = torch.compile(function, backend=backend)
    errors = _LargestErrors()
    number, raised = 0, ""
    cases = [Case()]
    if _changes_inputs(tracee, cases[0]):
        # The program may have called the function already, and the values that the function wrote
        # into its inputs can hide that compiled code reads them too early or too late.
        cases.append(Case(fill="random"))
    for case in (call for one in cases for call in calls_to_compile(function, (one,))):
        words, eager = call_case(eager_calls.build_call(), case, tracing.call_eagerly)
        if isinstance(eager, Exception):
            raised = f"An eager call raises {error_text(eager)}."
            continue
        _, repeated = call_case(repeated_calls.build_call(), case, tracing.call_eagerly)
        _, right = call_case(
            compiled_calls.build_call(), case, lambda _, args, kwargs: compiled(*args, **kwargs)
        )
        beginning = f"{describe_call(words, case)}, the compiled code"
        if isinstance(right, Exception):
            raises = f"{beginning} raises {error_text(right)}."
            return _no_verdict(_NO_MEMORY if texts.is_out_of_memory(right) else raises)
        if isinstance(repeated, Exception) or not _all_equal(eager, repeated):
            if isinstance(repeated, list) and _kinds(eager) == _kinds(repeated) != _kinds(right):
                reason = f"{beginning} returns tensors of other shapes or dtypes."
                return JudgedNumerics(NumericsVerdict("wrong", number + 1, reason=reason))
            return _no_verdict("Two eager calls with equal inputs give different results.")
        references = _References(
            eager,
            call_in_double(tracee, case, to_double),
            functools.partial(call_in_double, tracee, case, add_rounding_noise),
            functools.partial(_call_shaken, tracee, case),
        )
        number += 1
        errors.add_all(eager, right, references.exact)
        deviation = _first_deviation(eager, right, references)
        if deviation is not None and not deviation.is_certain:
            unknown = _NO_REFERENCE if references.exact else _NO_FLOAT64
            reason = _UNRELIABLE if deviation.is_unreliable else unknown
            return _no_verdict(f"{beginning} {deviation.words}. {reason}")
        if deviation is not None:
            verdict = NumericsVerdict(
                "wrong", number, errors.eager, errors.compiled, f"{beginning} {deviation.words}."
            )
            wrong, captured = _find_wrong_operation(tracee, case, backend)
            if wrong is None:
                is_captured_wrong = (
                    isinstance(captured, list)
                    and _first_deviation(eager, captured, references) is not None
                )
                return JudgedNumerics(verdict, is_captured_wrong=is_captured_wrong)
            stack = nodes.parse_stack_text(wrong.stack_trace or "")
            return JudgedNumerics(verdict, operation_name(wrong), stack)
    if not number:
        return _no_verdict(raised or "No call has results that could be compared with eager mode.")
    outcome: Any = "equal" if errors.are_equal else "rounding"
    return JudgedNumerics(NumericsVerdict(outcome, number, errors.eager, errors.compiled))


def _changes_inputs(tracee: Tracee, case: Case) -> bool:
    """Whether an eager test call writes to a tensor that it receives."""
    with contextlib.suppress(Exception):
        prepared = prepare_case(CallBuilder(tracee).build_call(), case)
        leaves = pytree.tree_leaves((prepared.args, prepared.kwargs))
        given = [one for one in leaves if isinstance(one, torch.Tensor)]
        versions = [one._version for one in given]
        with torch.no_grad():
            tracing.call_eagerly(prepared.function, prepared.args, prepared.kwargs)
        return versions != [one._version for one in given]
    return False


def _call_shaken(
    tracee: Tracee, case: Case, alter: Callable[[torch.Tensor], torch.Tensor]
) -> list[Any]:
    """Return the tensors of an eager test call whose inputs ``alter`` changes slightly; empty if
    the call raises.
    """
    call = CallBuilder(tracee).build_call()
    _, found = call_case(call, case, tracing.call_eagerly, alter)
    return [] if isinstance(found, Exception) else found


def _kinds(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the dtypes and shapes of the tensors in a list of results."""
    return [(one.dtype, one.shape) for one in values if isinstance(one, torch.Tensor)]


def _are_same_kind(left: Any, right: Any) -> bool:
    """Whether two values are tensors with the same dtype and shape."""
    return bool(_kinds([left])) and _kinds([left]) == _kinds([right])


def _all_equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two lists of results have equal tensors; other values are not compared."""
    return len(left) == len(right) and all(
        equal_tensors(one, other)
        for one, other in zip(left, right, strict=True)
        if isinstance(one, torch.Tensor)
    )


@dataclass(frozen=True)
class _Deviation:
    """A compiled value that differs from the eager one by more than rounding explains.

    ``is_certain`` is true if the value in double precision confirms the eager one.
    ``is_unreliable`` is true if tiny changes of the inputs change the eager value by a large share.
    """

    words: str
    is_certain: bool
    is_unreliable: bool = False


class _References:
    """Reference values for the results of one call; each list is empty if the values are unknown.

    ``eager`` are the values in eager mode. ``exact`` and ``near`` are values in double precision,
    for the same inputs and for slightly changed inputs. ``call_near`` computes ``near`` when it is
    first needed. ``call_shaken`` makes an eager call whose inputs a function changes slightly. Its
    difference from the eager values shows the size of rounding errors.
    """

    def __init__(
        self,
        eager: Sequence[Any],
        exact: Sequence[Any],
        call_near: Callable[[], Sequence[Any]],
        call_shaken: Callable[[Callable[[torch.Tensor], torch.Tensor]], Sequence[Any]],
    ) -> None:
        self._eager, self.exact = eager, exact
        self._call_near, self._call_shaken = call_near, call_shaken

    @functools.cached_property
    def near(self) -> Sequence[Any]:
        return self._call_near()

    @functools.cached_property
    def _instability(self) -> list[torch.Tensor]:
        """For each result, how much slightly changed inputs change each element at most."""
        largest = [
            _distances(one, one) if isinstance(one, torch.Tensor) else torch.zeros(())
            for one in self._eager
        ]
        for seed, sign in itertools.product(range(_SHAKES // 2), (1.0, -1.0)):
            shaken = self._call_shaken(functools.partial(_shake_strongly, seed=seed, sign=sign))
            for number, (one, other) in enumerate(zip(self._eager, shaken, strict=False)):
                if _are_same_kind(one, other):
                    largest[number] = torch.maximum(largest[number], _distances(one, other))
        return largest

    def explain_by_rounding(self, number: int, eager: torch.Tensor, compiled: torch.Tensor) -> bool:
        """Whether rounding errors explain the difference between an eager and a compiled value of
        the same shape and dtype.

        ``number`` is the index of the value among the results of the call. Small changes of the
        inputs show the size of rounding errors. They change most elements a little, unless the
        value is discrete: then they move some elements across a limit. Examples are a rounded
        number, a comparison, the index of a maximum, or a logarithm near zero.
        """
        wrong = _distances(eager, compiled)
        for exact in self.exact[number : number + 1]:
            if isinstance(exact, torch.Tensor) and exact.shape == compiled.shape:
                # Eager mode is wrong where float64 agrees with the compiled code, for example
                # because a number in 16 bits overflows.
                is_right = wrong.isinf() & _agrees(compiled, exact)
                wrong = torch.where(is_right, torch.zeros_like(wrong), wrong)
        allowed = self._instability[number]
        jumps = wrong > 0
        if float((allowed > 0).double().mean()) > _CONTINUOUS:
            jumps = wrong.isinf()
            allowed = torch.maximum(allowed, allowed.nan_to_num(posinf=0.0).max())
        unexplained = wrong > allowed
        if bool((unexplained & ~jumps).any()):
            return False
        return int(unexplained.sum()) * _EXPLAINED_FOR_EACH_EXCEPTION <= int(jumps.sum())

    def is_unreliable(self, number: int, eager: torch.Tensor) -> bool:
        """Whether slightly changed inputs change an eager value as much as a wrong reference."""
        largest = self._instability[number].nan_to_num(posinf=0.0).max()
        return is_floating(eager) and bool(largest > COMPARABLE * largest_element(eager.detach()))


def _many_roundings(dtype: torch.dtype) -> float:
    """Return the maximum difference that counts as rounding.

    It is a multiple of the difference that a change in the last bits of the inputs makes in eager
    mode. In 16 bits, 32 roundings would be a quarter of the number.
    """
    return 32.0 if torch.finfo(dtype).eps < 1e-4 else 4.0


def _shake_strongly(tensor: torch.Tensor, seed: int, sign: float) -> torch.Tensor:
    """Change each element of a tensor by a random amount as large as rounding errors can be."""
    return shake(tensor, sign * _many_roundings(tensor.dtype), seed)


def _agrees(compiled: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Whether each element of a compiled result agrees with the result in double precision."""
    tolerance = torch.zeros((), dtype=torch.float64)
    if is_floating(compiled):
        tolerance = torch.finfo(compiled.dtype).eps ** 0.5 * exact.detach().abs().nan_to_num()
    return _distances(compiled, exact) <= tolerance


def _distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return how far each element of a tensor is from the same element of another tensor.

    The distance is infinite if one element is NaN or infinite and the other is not equal, or if the
    elements are different integers or truth values.
    """
    left, right = left.detach(), right.detach()
    different = torch.full(left.shape, float("inf"), dtype=torch.float64, device=left.device)
    same = (left == right) | (left.isnan() & right.isnan())
    distances = different
    if left.dtype.is_floating_point or left.dtype.is_complex:
        distances = (to_double(left) - to_double(right)).abs().double()
        distances = torch.where(distances.isfinite(), distances, different)
    return torch.where(same, torch.zeros_like(distances), distances)


def _first_deviation(
    eager: Sequence[Any], compiled: Sequence[Any], references: _References
) -> _Deviation | None:
    """Return the first compiled value whose difference from the eager value is too large for
    rounding, if there is one.
    """
    exact = references.exact
    scale = max(
        (float(largest_element(one.detach())) for one in exact if is_floating(one)), default=0.0
    )
    if len(eager) != len(compiled):
        return _Deviation(f"returns {len(compiled)} values instead of {len(eager)}", True)
    for number, (left, right) in enumerate(zip(eager, compiled, strict=True)):
        if equal_tensors(left, right):
            continue
        same, near = exact[number : number + 1], references.near[number : number + 1]
        words = describe_deviation(left, right, same, near, scale)
        if not words:
            continue
        same_kind = _are_same_kind(left, right)
        if same_kind and references.explain_by_rounding(number, left, right):
            continue
        is_rounded = is_floating(left) and same_kind
        known = any(is_comparable(left, one, scale) for one in same if is_floating(one))
        return _Deviation(
            f"returns a different result, which {words}",
            known or not is_rounded,
            same_kind and references.is_unreliable(number, left),
        )
    return None


class _LargestErrors:
    """The largest deviations of eager and compiled tensors from their values in float64.

    Each is a share of the largest element of the tensor; None before the first one.
    """

    def __init__(self) -> None:
        self.eager: float | None = None
        self.compiled: float | None = None
        self.are_equal = True
        """True if all compiled tensors are equal to the eager ones."""

    def add_all(self, eager: Sequence[Any], compiled: Sequence[Any], exact: Sequence[Any]) -> None:
        """Add the eager and compiled tensors of one call, and the same tensors in float64;
        ``exact`` is empty if these are unknown.
        """
        for left, right in zip(eager, compiled, strict=False):
            if isinstance(left, torch.Tensor) and not equal_tensors(left, right):
                self.are_equal = False
        for left, right, reference in zip(eager, compiled, exact, strict=False):
            if all(map(is_floating, (left, right, reference))):
                self._add(left, right, reference)

    def _add(self, left: torch.Tensor, right: torch.Tensor, reference: torch.Tensor) -> None:
        if left.shape != right.shape or not is_comparable(left, reference):
            return
        left_error, right_error = (relative_error(one, reference) for one in (left, right))
        if self.compiled is None or right_error > self.compiled:
            self.eager, self.compiled = left_error, right_error


# -- the first wrong operation -------------------------------------------------------------------


def _find_wrong_operation(
    tracee: Tracee, case: Case, backend: Any
) -> tuple[torch.fx.Node | None, list[Any] | Exception]:
    """Find the first operation of the captured graphs whose compiled result is wrong.

    Also return the results of the call when these graphs run in eager mode.
    """
    search = WrongOperationSearch(
        case.seed,
        ProcessorBudget(_SEARCH_SECONDS),
        lambda graph: torch.compile(graph, backend=backend),
    )
    dynamo.reset()
    call = CallBuilder(tracee).build_call()
    compiled: Any = torch.compile(call.function, backend=search.backend)
    _, captured = call_case(call, case, lambda _, args, kwargs: compiled(*args, **kwargs))
    return search.found, captured


class WrongOperationSearch:
    """Searches the graphs of one call for the first operation with a wrong compiled result.

    ``seed`` is the seed of random numbers, ``budget`` the time limit. ``compile_graph`` compiles a
    graph. Pass the method ``backend`` to ``torch.compile``: it searches each graph, then executes
    it in eager mode.
    """

    def __init__(
        self,
        seed: int,
        budget: ProcessorBudget,
        compile_graph: Callable[[Graph], Callable[..., Any]],
    ) -> None:
        self._seed, self._budget, self._compile_graph = seed, budget, compile_graph
        self.found: torch.fx.Node | None = None

    def backend(self, graph: Graph, _: Sequence[Any]) -> Callable[..., Any]:
        """Return a function that searches ``graph`` at its first call, and then executes it."""

        def execute(*inputs: Any) -> Any:
            if self.found is None and not self._budget.spent:
                with contextlib.suppress(Exception):
                    # If a part of the graph raises an exception, that does not show which operation
                    # is wrong.
                    self.found = self._search_graph(graph, inputs)
            return graph.forward(*inputs)

        return execute

    def _search_graph(self, graph: Graph, inputs: Sequence[Any]) -> torch.fx.Node | None:
        """Return the first operation of a graph whose compiled result is wrong, found by bisection.

        The search assumes that results are right before this operation and wrong from it on. Return
        None if the graph's result is right or the time limit was reached.
        """
        every: list[torch.fx.Node] = [*graph.graph.nodes]
        operations = [node for node in every if _has_tensors(node)]
        if not operations or not self._is_wrong(_until(graph, operations[-1]), inputs):
            return None
        right, wrong = -1, len(operations) - 1
        while wrong - right > 1 and not self._budget.spent:
            middle = (right + wrong) // 2
            if self._is_wrong(_until(graph, operations[middle]), inputs):
                wrong = middle
            else:
                right = middle
        if wrong - right > 1:
            return None
        return operations[wrong]

    def _is_wrong(self, graph: Graph, inputs: Sequence[Any]) -> bool:
        """Whether the results or gradients of a compiled graph deviate from eager mode by more than
        rounding."""
        compiled = self._compile_graph(graph)
        eager = self._results(graph, inputs)
        wide = _in_double(graph)
        references = _References(
            eager,
            self._results(wide, inputs, to_double, in_double=True),
            lambda: self._results(wide, inputs, add_rounding_noise, in_double=True),
            lambda alter: self._results(graph, inputs, alter),
        )
        return _first_deviation(eager, self._results(compiled, inputs), references) is not None

    def _results(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        alter: Callable[[torch.Tensor], torch.Tensor] | None = None,
        *,
        in_double: bool = False,
    ) -> list[Any]:
        """Call ``function`` with copies of the inputs; return its results, the inputs after the
        call and the gradients of the inputs.

        ``alter`` changes each floating-point input. With ``in_double``, all torch functions compute
        in double precision.
        """
        given = copy_inputs(inputs)
        if alter is not None:
            given = [_alter_input(value, alter) for value in given]
        rng.seed_generators(self._seed)
        with DoublePrecisionMode() if in_double else contextlib.nullcontext():
            returned = pytree.tree_leaves(function(*given))
        starts = [one for one in given if is_floating(one) and one.requires_grad]
        after = [one.detach().clone() for one in given if isinstance(one, torch.Tensor)]
        return [*returned, *after, *gradients_of_leaves(returned, starts)]


def _alter_input(value: Any, alter: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if not is_floating(value):
        return value
    return alter(value.detach()).requires_grad_(value.requires_grad)


def operation_name(node: torch.fx.Node) -> str:
    """Return the name of the function or method that a node calls.

    ``node.name`` would instead be derived from the name of a variable in the user's code.
    """
    return str(getattr(node.target, "__name__", node.target))


def _has_tensors(node: torch.fx.Node) -> bool:
    """Whether a node is an operation whose result contains a tensor."""
    leaves = pytree.tree_leaves(node.meta.get("example_value"))
    return node.op.startswith("call") and any(isinstance(one, torch.Tensor) for one in leaves)


def _until(graph: Graph, last: torch.fx.Node) -> Graph:
    """Return a copy of a graph that ends at the operation ``last``.

    It returns the result of this operation, and the tensors that later operations still use,
    because ``last`` may overwrite one of them.
    """
    part = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in _up_to(graph, last):
        copies[node] = part.node_copy(node, lambda one: copies[one])
    used = [node for node in copies if node is not last and node.op != "placeholder"]
    used = [node for node in used if _has_tensors(node) and node.users.keys() - copies.keys()]
    part.output((copies[last], *(copies[node] for node in used)))
    # Inputs that only later operations use stay inputs.
    return torch.fx.GraphModule(graph, part)


def _up_to(graph: Graph, last: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield all inputs of a graph, then its nodes up to ``last``."""
    yield from graph.graph.find_nodes(op="placeholder")
    for node in graph.graph.nodes:
        if node.op not in ("placeholder", "output"):
            yield node
        if node is last:
            return


def _in_double(graph: Graph) -> Graph:
    """Return a copy of a graph whose parameters and buffers have double precision."""
    return copy.deepcopy(graph).double()
