"""Calls of compiled functions with other sizes and numbers, and the values of a program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fullgraph_engine.programs.further_calls import RegionArguments, make_further_calls
from fullgraph_engine.programs.observing import ObservedModules, ProgramValues, when_returned
from fullgraph_engine.torch_internals.regions import CompiledCall


def region_of(
    function: Callable[..., Any], compiled: Callable[..., Any], *calls: tuple[Any, ...]
) -> RegionArguments:
    region = RegionArguments(compiled, name="f")
    for args in calls:
        region.note_call(CompiledCall(function, args, {}))
    return region


def seen_sizes(function: Callable[..., Any], *calls: tuple[Any, ...]) -> tuple[int, list[Any]]:
    """The number of further calls of a function, and the shapes and numbers that it was given."""
    seen: list[Any] = []

    def note(*args: Any) -> Any:
        seen.append(tuple(tuple(one.shape) if hasattr(one, "shape") else one for one in args))
        return function(*args)

    count, difference = make_further_calls([region_of(function, note, *calls)], 20)
    assert not difference
    return count, seen


def test_sizes_that_vary_together_stay_equal() -> None:
    def f(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x * mask

    calls = [(torch.ones(n, 4), torch.ones(n, 1)) for n in (3, 5, 6)]
    count, seen = seen_sizes(f, *calls)
    assert count == 20
    assert all(x[0] == mask[0] and x[1] == 4 and mask[1] == 1 for x, mask in seen)
    assert len({x[0] for x, _ in seen} - {3, 5, 6}) == 20


def test_numbers_that_vary_get_other_values() -> None:
    _, seen = seen_sizes(
        lambda x, rate, position: x * rate + position,
        (torch.ones(2), 0.1, 3),
        (torch.ones(2), 0.2, 3),
    )
    assert {position for _, _, position in seen} == {3}
    assert len({rate for _, rate, _ in seen}) == 20
    assert all(0.1 <= rate <= 0.2 for _, rate, _ in seen)


def test_indices_stay_valid_for_other_sizes() -> None:
    table = torch.arange(6.0)
    calls = [(torch.arange(n) % 6,) for n in (4, 6)]
    count, _ = seen_sizes(lambda index: table[index], *calls)
    assert count == 20


def test_equal_arguments_are_repeated() -> None:
    count, seen = seen_sizes(lambda x: x + 1, (torch.ones(2),), (torch.ones(2),))
    assert (count, seen) == (3, [((2,),)] * 3)


def test_sizes_for_which_the_function_raises_do_not_count() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        raise ValueError

    assert make_further_calls([region_of(f, f, (torch.ones(2),), (torch.ones(3),))], 5) == (0, "")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda x: x * 2 + 1, id="another result"),
        pytest.param(lambda x: x.detach() * 2, id="another gradient"),
    ],
)
def test_a_difference_from_eager_mode_is_reported(wrong: Callable[..., Any]) -> None:
    calls = [(torch.ones(n, requires_grad=True),) for n in (2, 3)]
    _, difference = make_further_calls([region_of(lambda x: x * 2, wrong, *calls)], 3)
    assert "differ" in difference


def test_changes_of_arguments_stay_out_of_later_calls() -> None:
    x = torch.zeros(3)
    region = region_of(lambda x: x.add_(1), lambda x: x.add_(1), (x,))
    assert make_further_calls([region], 3) == (3, "")
    assert x.tolist() == [0, 0, 0]


def test_tensors_get_other_elements_to_compare_versions_of_a_program() -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def f(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        seen.append((x, mask))
        if not mask.any():
            raise ValueError
        return x[mask].sum()

    values = ProgramValues()

    x, mask = torch.arange(4.0), torch.tensor([True, True, False, False])
    region = region_of(f, f, (x, mask))
    _, difference = make_further_calls([region], 3, note=values.add_further)
    assert not difference
    assert len({tuple(one.tolist()) for one, _ in seen}) > 2
    assert {tuple(sorted(one.tolist())) for one, _ in seen} == {(0.0, 1.0, 2.0, 3.0)}
    assert {False, True} <= {one[0].item() for _, one in seen if len(set(one.tolist())) == 1}
    by_call: dict[str, list[str]] = {}
    for value in values.found:
        by_call.setdefault(value.call, []).append(value.words)
    assert "" not in by_call and len(by_call) > 4
    assert [words for words in by_call.values() if words == ["ValueError"]] == [["ValueError"]]
    assert {one.path.partition("[")[0] for one in values.found} == {"result of a further call of f"}


def test_the_value_of_a_frame_is_seen_when_it_returns() -> None:
    seen: list[Any] = []

    def f(raises: bool) -> int:
        when_returned(sys._getframe(), seen.append)
        if raises:
            raise ValueError
        return 3

    before = sys.gettrace()
    sys.settrace(None)
    try:
        assert f(False) == 3
        with pytest.raises(ValueError):
            f(True)
        assert sys.gettrace() is None
    finally:
        sys.settrace(before)
    assert seen == [3]


def test_results_gradients_and_state_are_recorded() -> None:
    values = ProgramValues()
    x = torch.ones(2, requires_grad=True)
    values.add_result("f", CompiledCall(lambda x: x, (x,), {}), x * 3)
    values.add_state({"total": 4, "torch": torch, "f": lambda: 0, "x": x})
    found = {one.path: one for one in values.found}
    assert found["result 1 of f"].sample == (3.0, 3.0, 6.0)
    first, second, _ = found["gradients of result 1 of f[0]"].sample
    assert first and second and first != second
    assert found["total"].words == "int 4"
    assert found["x"].aspect == "state"
    assert {"torch", "f"}.isdisjoint(found)


def test_results_of_uncompiled_modules_are_recorded_once() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert observed.is_running
            return x + 1

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Layer()

        def forward(self, x: torch.Tensor, *, times: int = 1) -> torch.Tensor:
            return self.layer(x) * times

    noted: list[tuple[str, CompiledCall, Any]] = []
    where = "test_results_of_uncompiled_modules_are_recorded_once"
    names = (f"{where}.Net", f"{where}.Layer")
    observed = ObservedModules(names, lambda *told: noted.append(told))
    observed.observe_classes()
    observed.observe_classes()
    net = Net()
    with pytest.raises(TypeError):
        net()
    assert not noted and not observed.is_running
    assert net(torch.ones(1), times=3).item() == 6
    ((name, call, result),) = noted
    assert (name, call.function, call.kwargs, result.item()) == (names[0], net, {"times": 3}, 6)
    assert torch.nn.Linear(1, 1)._compiled_call_impl is None


def test_records_of_a_call_that_raises_in_eager_mode_too_are_removed() -> None:
    """A cache is full after some calls: Dynamo breaks the graph there, as eager mode raises."""
    used = [0]

    def append(x: torch.Tensor) -> torch.Tensor:
        used[0] += 1
        if used[0] > 4:
            raise ValueError("full")
        return x

    removed: list[int] = []
    region = region_of(append, append, (torch.ones(2),), (torch.ones(3),))
    made = make_further_calls([region], 2, lambda: lambda: removed.append(used[0]))
    assert made == (1, "")
    assert removed == [6]
