"""Compare the results of compiled code with eager mode, with float64 as the reference.

The error of a compiled result, measured against float64, may exceed the error of eager mode by a
fixed factor. So users need not choose a tolerance for each function and dtype.
"""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import texts
from ..behavior.gradients import gradient_weights
from ..torch_internals import dynamo
from ..torch_internals.trees import pytree

_FACTOR = 10
"""Factor by which the error of a compiled result may exceed the error of eager mode."""
_BITS = 64
"""Error always allowed, in units of the dtype's epsilon, relative to the largest reference value.
"""
_BITS_WITHOUT_REFERENCE = 1024
"""Error allowed if float64 cannot be computed, in units of the dtype's epsilon."""
_AFTER_CALL = " after the call"
_SEED = 0
_MOST_SHOWN = 3
"""Maximum number of elements of a tensor that a message shows."""
_MOST_DIFFERENCES = 5
"""Maximum number of differing values that a message shows."""

Results = dict[str, Any]
"""Values after one call, by their name: outputs, arguments, buffers and gradients."""
Call = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and keyword arguments of a call."""


class Uncopyable(Exception):
    """Raised if a function or its arguments cannot be copied; the message is a sentence."""


@dataclass(frozen=True)
class Difference:
    """A value of the compiled code that eager mode does not confirm.

    ``name`` says which value it is (``output[0]``), ``words`` how it differs, in lines. ``excess``
    is the error divided by the allowed error; infinite if the value is not a number, has another
    shape or is not a float.
    """

    name: str
    words: str
    excess: float = float("inf")


class Numerics:
    """Calls of a function in eager mode and in float64, to compare compiled calls with.

    The function and its arguments are copied, so that calls cannot change the objects of the test.
    Must be created before the compiled calls. With ``train``, each call is followed by a backward
    pass, and gradients are compared as well. ``allow_nan`` accepts NaN where eager mode has NaN.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        calls: Sequence[Call],
        *,
        train: bool = False,
        allow_nan: bool = False,
    ) -> None:
        self._train, self._allow_nan = train, allow_nan
        original = dynamo.original_function(function)
        self._eager = self._run_calls(*_copy(original, calls))
        self._exact: list[Results] | None = None
        # Code that fixes a dtype cannot run in float64.
        with contextlib.suppress(Exception):
            self._exact = self._run_calls(*_to_double(*_copy(original, calls)))

    def _run_calls(self, function: Callable[..., Any], calls: Sequence[Call]) -> list[Results]:
        with self.seed_random():
            return [self._run_call(function, args, kwargs) for args, kwargs in calls]

    def _run_call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Results:
        value = function(*args, **kwargs)
        if self._train:
            run_backward(value)
        return self.results_of(function, value, args, kwargs)

    @contextlib.contextmanager
    def seed_random(self) -> Iterator[None]:
        """Draw the same random numbers in each such ``with`` block, in eager mode and compiled."""
        with torch.random.fork_rng(), dynamo.eager_random_numbers():
            torch.manual_seed(_SEED)
            yield

    def results_of(
        self,
        function: Callable[..., Any],
        value: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Results:
        """Return copies of all values that a call returned or may have changed, by name."""
        found: Results = {}
        _collect("output", value, found)
        for number, item in enumerate(args):
            _collect(f"argument {number + 1}{_AFTER_CALL}", item, found)
        for name, item in kwargs.items():
            _collect(f"argument `{name}`{_AFTER_CALL}", item, found)
        module = module_of(function)
        if module is not None:
            for name, buffer in module.named_buffers():
                _collect(f"buffer `{name}`", buffer, found)
        if self._train:
            gradients = module.named_parameters() if module is not None else ()
            for name, parameter in gradients:
                _collect(f"gradient of `{name}`", parameter.grad, found)
            tensors = pytree.tree_leaves((args, dict(kwargs)))
            for number, tensor in enumerate(tensors):
                if isinstance(tensor, torch.Tensor) and tensor.is_leaf and tensor.requires_grad:
                    _collect(f"gradient of input tensor {number + 1}", tensor.grad, found)
        return found

    def differences(self, number: int, compiled: Results) -> list[Difference]:
        """Return the values that differ from eager mode after a compiled call, the largest
        difference first.

        ``number`` is the index of the call. ``compiled`` has the values after it.
        """
        eager = self._eager[number]
        exact = self._exact[number] if self._exact is not None else {}
        if compiled.keys() != eager.keys():
            missing = sorted(eager.keys() ^ compiled.keys())
            words = f"exists only in {'eager mode' if missing[0] in eager else 'compiled code'}"
            return [Difference(missing[0], words)]
        found = []
        for name, value in compiled.items():
            # The test may pass NaN on purpose, for example to mark missing values.
            allow_nan = self._allow_nan or _AFTER_CALL in name
            difference = _compare_results(value, eager[name], exact.get(name), allow_nan=allow_nan)
            if difference is not None:
                found.append(Difference(name, *difference))
        return sorted(found, key=lambda one: -one.excess)


def _compare_results(
    compiled: Any, eager: Any, exact: Any, *, allow_nan: bool
) -> tuple[str, float] | None:
    infinite = float("inf")
    if not isinstance(compiled, torch.Tensor) or not isinstance(eager, torch.Tensor):
        same = type(compiled) is type(eager) and (compiled == eager or compiled != compiled)
        values = f"compiled {texts.safe_repr(compiled)}, eager {texts.safe_repr(eager)}"
        return None if same else (values, infinite)
    for word in ("shape", "dtype", "device"):
        mine, other = getattr(compiled, word), getattr(eager, word)
        if mine != other:
            return (
                f"{word}: compiled {_property_words(mine)}, eager {_property_words(other)}",
                infinite,
            )
    if not (compiled.is_floating_point() or compiled.is_complex()):
        return _compare_exactly(compiled, eager)
    nan, eager_nan = compiled.isnan(), eager.isnan()
    if eager_nan.any() and not allow_nan:
        return (
            f"{int(eager_nan.sum())} of {eager.numel()} elements are NaN in eager mode, so "
            "differences may be hidden; pass `allow_nan=True` to accept NaN",
            infinite,
        )
    if not torch.equal(nan, eager_nan):
        counts = f"compiled {int(nan.sum())}, eager {int(eager_nan.sum())}"
        return f"elements that are NaN: {counts} of {eager.numel()}", infinite
    usable = isinstance(exact, torch.Tensor) and exact.shape == eager.shape
    return _compare_floats(compiled, eager, exact if usable else None)


def run_backward(value: Any) -> None:
    """Compute gradients of a weighted sum of all tensors in ``value`` that require them.

    Raises:
        ValueError: No tensor requires a gradient.
    """
    tensors = [
        one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor) and one.grad_fn
    ]
    if not tensors:
        raise ValueError(
            "`train=True` needs a result that requires gradients; pass a module with parameters, "
            "or a tensor with `requires_grad=True`."
        )
    weights = [gradient_weights(one, str(number)) for number, one in enumerate(tensors)]
    torch.autograd.backward(tensors, weights)


def module_of(function: Callable[..., Any]) -> torch.nn.Module | None:
    """Return the module, if a function is a module or its method, compiled or not; else None."""
    function = dynamo.original_function(function)
    owner = getattr(function, "__self__", function)
    return owner if isinstance(owner, torch.nn.Module) else None


def difference_text(found: Sequence[Difference], call: int, calls: int) -> str:
    """Describe the differences ``found`` in one compiled call, one per line.

    ``call`` is the index of the call, ``calls`` the number of calls.
    """
    where = f" in call {call + 1} of {calls}" if calls > 1 else ""
    lines = [f"Compiled code computes different values than eager mode{where}:"]
    for one in found[:_MOST_DIFFERENCES]:
        lines += [f"  {one.name}: {one.words}"]
    if len(found) > _MOST_DIFFERENCES:
        lines.append(f"  and {len(found) - _MOST_DIFFERENCES} more")
    return "\n".join(lines)


def _compare_floats(
    compiled: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None
) -> tuple[str, float] | None:
    epsilon = torch.finfo(eager.dtype).eps
    wide = torch.complex128 if eager.is_complex() else torch.float64
    mine, other = compiled.to(wide), eager.to(wide)
    reference = other if exact is None else exact.to(wide)
    finite = mine.isfinite() & other.isfinite()
    if not torch.equal(mine[~finite].nan_to_num(), other[~finite].nan_to_num()):
        return "infinite elements differ", float("inf")
    mine, other, reference = mine[finite], other[finite], reference[finite]
    if not mine.numel():
        return None
    reference = torch.where(reference.isfinite(), reference, other)
    errors, eager_errors = (mine - reference).abs(), (other - reference).abs()
    scale = float(reference.abs().max())
    bits = _BITS if exact is not None else _BITS_WITHOUT_REFERENCE
    allowed = _FACTOR * float(eager_errors.max()) + epsilon * (bits * scale + 1)
    largest = float(errors.max())
    if largest <= allowed:
        return None
    wrong = int((errors > allowed).sum())
    whole = f"{wrong} of {eager.numel()} elements differ"
    against = "float64" if exact is not None else "eager mode"
    limit = f"largest error {largest:.3g} compared with {against}, allowed error {allowed:.3g}"
    if exact is not None:
        limit += f"; the largest error of eager mode is {float(eager_errors.max()):.3g}"
    shown = [
        f"    [{', '.join(map(str, index))}] compiled {_number(compiled[index])}, "
        f"eager {_number(eager[index])}"
        for index in _largest(errors, finite)
    ]
    return "\n".join([f"{whole} ({limit})", *shown]), largest / allowed


def _compare_exactly(compiled: torch.Tensor, eager: torch.Tensor) -> tuple[str, float] | None:
    if torch.equal(compiled, eager):
        return None
    wrong = (compiled != eager).nonzero()
    shown = [
        f"    {index.tolist()} compiled {compiled[tuple(index)].item()}, "
        f"eager {eager[tuple(index)].item()}"
        for index in wrong[:_MOST_SHOWN]
    ]
    words = f"{len(wrong)} of {eager.numel()} elements differ"
    return "\n".join([words, *shown]), float("inf")


def _largest(errors: torch.Tensor, finite: torch.Tensor) -> list[tuple[int, ...]]:
    """Return the indices of the elements with the largest errors.

    ``finite`` is true for the elements to consider, and ``errors`` has one number for each of them.
    """
    places = finite.nonzero()
    order = errors.argsort(descending=True)[:_MOST_SHOWN]
    return [tuple(places[number].tolist()) for number in order]


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _property_words(value: Any) -> str:
    return str(list(value)) if isinstance(value, torch.Size) else str(value)


def _collect(name: str, value: Any, found: Results) -> None:
    """Add the tensors and numbers in a value to ``found``, with copies of the tensors. Their names
    begin with ``name``.
    """
    leaves, _ = pytree.tree_flatten_with_path(value)
    for path, leaf in leaves:
        key = f"{name}{pytree.keystr(path)}"
        if isinstance(leaf, torch.Tensor):
            found[key] = leaf.detach().clone()
        elif isinstance(leaf, (bool, int, float, complex, str, type(None))):
            found[key] = leaf


def _copy(function: Any, calls: Sequence[Call]) -> tuple[Any, Any]:
    """Return copies of a function and of the arguments of its calls.

    A module that a plain function takes from the scope around it is copied as well.

    Raises:
        Uncopyable: Something cannot be copied.
    """
    captured = _captured_values(function)
    memo: dict[int, Any] = {}
    for leaf in pytree.tree_leaves(list(calls)):
        if isinstance(leaf, torch.Tensor) and not leaf.is_leaf:
            # ``deepcopy`` refuses results of autograd.
            memo[id(leaf)] = leaf.detach().clone().requires_grad_()
    try:
        function, calls, captured = copy.deepcopy((function, list(calls), captured), memo)
    except Exception as error:
        raise Uncopyable(
            "`numerics=True` needs copies of the function and its arguments, but copying them "
            f"failed: {texts.type_and_message(error)}."
        ) from error
    return _replace_captured(function, captured), calls


def _to_double(function: Any, calls: Sequence[Call]) -> tuple[Any, Any]:
    """Convert all floating-point tensors of a copied function and of its calls to float64."""
    module = module_of(function)
    if module is not None:
        module.double()
    captured = {name: value.double() for name, value in _captured_values(function).items()}

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        return leaf.detach().double().requires_grad_(leaf.requires_grad)

    return _replace_captured(function, captured), pytree.tree_map(convert, list(calls))


def _captured_values(function: Any) -> dict[str, Any]:
    """Return the modules and floating-point tensors that a plain function takes from the scope
    around it, by name.
    """
    if not isinstance(function, types.FunctionType):
        return {}
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the variable is not assigned yet
            content = cell.cell_contents
            if isinstance(content, torch.nn.Module) or (
                isinstance(content, torch.Tensor) and content.is_floating_point()
            ):
                found[name] = content
    return found


def _replace_captured(function: Any, captured: Mapping[str, Any]) -> Any:
    """Return a plain function with other values for the variables of the scope around it."""
    if not captured:
        return function
    cells = tuple(
        types.CellType(captured[name]) if name in captured else cell
        for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True)
    )
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made
