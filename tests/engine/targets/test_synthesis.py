"""Inputs that are found by trying."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fullgraph_engine import tracing
from fullgraph_engine.targets import notation, notation_parser, tensors
from fullgraph_engine.targets.deadline import limit_seconds
from fullgraph_engine.targets.synthesis import (
    CertainError,
    FoundInputs,
    InputSearch,
    NotFound,
    trial,
)
from fullgraph_engine.targets.synthesis import search as searching

PATH = Path(__file__).parents[2] / "fixtures" / "targets" / "to_be_found.py"


def loaded() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("to_be_found", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["to_be_found"] = module
    spec.loader.exec_module(module)
    return vars(module)


NAMESPACE = loaded()
CLASSES = [
    name
    for name, value in NAMESPACE.items()
    if isinstance(value, type)
    and issubclass(value, nn.Module)
    and value.__module__ == "to_be_found"
]


def search(
    subject: Any, namespace: dict[str, Any], seconds: float = 20.0, before: str = ""
) -> FoundInputs | NotFound | CertainError:
    said = notation_parser.parse_probe(before) if before else None
    with tracing.tensor_mode(True):
        return InputSearch(subject, namespace).run(seconds, said)


def call(subject: Any, comment: str, namespace: dict[str, Any]) -> Any:
    """As a probe comment says it, with real tensors."""
    said = notation_parser.parse_probe(comment)
    init = tensors.build_inputs(said.init or notation.Arguments(), {}, namespace)
    inputs = tensors.build_inputs(said.inputs or notation.Arguments(), {}, namespace)
    return subject(*init.args, **init.kwargs)(*inputs.args, **inputs.kwargs)


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_found_is_a_comment_that_works(name: str) -> None:
    found = search(NAMESPACE[name], NAMESPACE)
    assert isinstance(found, FoundInputs), found
    comment = notation.show_notation(found.notation)
    call(NAMESPACE[name], comment, NAMESPACE)
    again = search(NAMESPACE[name], NAMESPACE, before=comment)
    assert isinstance(again, FoundInputs)
    assert again.tries == 1 and notation.show_notation(again.notation) == comment


def test_what_worked_before_is_given_up_where_it_no_longer_does() -> None:
    found = search(NAMESPACE["Block"], NAMESPACE, before="init(3, 4) forward(f32[2, 5])")
    assert isinstance(found, FoundInputs) and found.tries > 1
    call(NAMESPACE["Block"], notation.show_notation(found.notation), NAMESPACE)


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(784, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.view(-1, 784))


def test_the_free_dimension_of_a_view_is_the_batch() -> None:
    found = search(Flat, globals())
    assert isinstance(found, FoundInputs)
    assert notation.show_notation(found.notation) == "forward(f32[2, 784])"


class Slow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return x


def test_what_worked_before_may_take_longer_than_another_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "_TRY", 0.1)
    monkeypatch.setattr(trial, "_REAL_SECONDS", 0.1)
    assert isinstance(search(Slow, globals(), seconds=1.0), NotFound)
    found = search(Slow, globals(), seconds=1.0, before="forward(f32[2])")
    assert isinstance(found, FoundInputs)
    assert notation.show_notation(found.notation) == "forward(f32[2])"


def test_a_configuration_of_the_file_is_taken() -> None:
    found = search(NAMESPACE["Sized"], NAMESPACE)
    assert isinstance(found, FoundInputs)
    assert notation.show_notation(found.notation).startswith("init(s=Sizes()) ")


def test_the_last_obstacle_is_told() -> None:
    class Refusing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not today")

    found = search(Refusing, {"Refusing": Refusing}, seconds=0.5)
    assert isinstance(found, NotFound)
    assert found.obstacle == "forward raised RuntimeError: not today"


def test_a_configuration_that_is_made_with_another_one() -> None:
    class TrainerArgs(nn.Module):
        def __init__(self, cfg: Any) -> None:
            super().__init__()
            if not isinstance(cfg, int):
                raise TypeError("an int is needed")

        def forward(self, x: Any) -> Any:
            return x

    outcome = search(TrainerArgs, {"TrainerArgs": TrainerArgs}, 2.0)
    assert isinstance(outcome, (FoundInputs, NotFound))


@pytest.mark.slow
def test_a_try_that_does_not_end_is_broken_off() -> None:
    class Slow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while x.dtype != torch.int64:
                pass
            return x

    found = search(Slow, {"Slow": Slow}, seconds=60.0)
    assert isinstance(found, FoundInputs)
    assert "i64" in notation.show_notation(found.notation)


def test_a_deadline_is_repeated_where_it_is_caught() -> None:
    class Late(BaseException):
        pass

    caught = 0
    with pytest.raises(Late), limit_seconds(Late, 0.05):
        try:
            threading.Event().wait(20)
        except Late:
            caught += 1
        threading.Event().wait(20)
    assert caught == 1


def test_two_deadlines_that_are_due_at_once() -> None:
    class Late(BaseException):
        pass

    both = (signal.SIGALRM, signal.SIGPROF)
    before = [signal.getsignal(one) for one in both]
    with pytest.raises(Late) as raised, limit_seconds(Late, 0.05, processor=0.05):
        sum(range(30_000_000))  # one long call of C
    # As long as its frames are alive, so is what they had not left.
    assert raised.value is not None
    assert [signal.getsignal(one) for one in both] == before


def test_a_deadline_goes_on_behind_one_inside_of_it() -> None:
    class Outer(BaseException):
        pass

    class Inner(BaseException):
        pass

    forever = threading.Event()
    with pytest.raises(Outer), limit_seconds(Outer, 0.3):
        with pytest.raises(Inner), limit_seconds(Inner, 0.05):
            forever.wait(60)
        with limit_seconds(Inner, 60, processor=60):
            pass
        forever.wait(60)


def test_what_is_drawn_from_small_layers_is_drawn_from_numbers() -> None:
    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            garbage = torch.full((16,), torch.nan)
            self.logits = nn.Parameter(garbage)
            nn.init.normal_(self.logits)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[0] + torch.multinomial(self.logits.softmax(0), 1)

    assert isinstance(search(Drawing, {"Drawing": Drawing}, 2.0), FoundInputs)


def test_large_layers_stay_as_they_are_however_initialization_is_called() -> None:
    fill = nn.init.normal_

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = nn.Parameter(torch.zeros(100, 100))
            self.small = nn.Parameter(torch.zeros(4))
            fill(self.large, 5.0)
            self.large.data.uniform_(5.0, 6.0)
            self.large.add_(5.0)
            fill(self.small, 5.0, 0.0)
            self.table = torch.arange(10_000).add_(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = self.large.any(), (self.small == 5.0).all(), self.table[0] == 1
            assert [bool(one) for one in seen] == [False, True, True]
            return x * 2

    assert isinstance(search(Net, {"Net": Net}, 1.0), FoundInputs)


def test_initialization_is_as_it_was_behind_a_search() -> None:
    before = nn.init.zeros_
    search(NAMESPACE["Block"], NAMESPACE)
    assert nn.init.zeros_ is before
    assert nn.init.zeros_(torch.ones(2)).tolist() == [0.0, 0.0]


class Scan(nn.Module):
    """A loop over the steps of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 1)

    def forward(self, wav: torch.Tensor) -> torch.Tensor:
        x = self.conv(wav)
        state = torch.zeros_like(x[:, :, 0])
        for step in range(x.shape[2]):
            state = state * 0.5 + x[:, :, step]
        return state


def test_a_loop_over_a_long_input_is_shortened() -> None:
    found = search(Scan, {"Scan": Scan})
    assert isinstance(found, FoundInputs)
    assert notation.show_notation(found.notation) == "forward(f32[2, 1, 4])"
    assert found.shortened == "`wav.shape[2]` is 4 instead of 1,024"


class Unbatched(nn.Module):
    """Only an input without a batch fits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        channels, _, _ = self.conv(x).shape
        return x * channels


def test_inputs_that_fit_by_accident_are_unusual() -> None:
    found = search(Unbatched, {"Unbatched": Unbatched})
    assert isinstance(found, FoundInputs)
    assert found.unusual == "`conv2d` gets 3 dimensions instead of 4"


class Doubled(nn.Module):
    """The width of the second layer is wrong, whatever ``dim`` is."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.second = nn.Linear(dim * 2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Independent(nn.Module):
    """The widths are two arguments, which have to be equal."""

    def __init__(self, dim: int, other: int = 48) -> None:
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.second = nn.Linear(other, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def test_an_error_that_no_sizes_avoid_is_certain() -> None:
    wrong = search(Doubled, {"Doubled": Doubled}, 2.0)
    assert isinstance(wrong, CertainError)
    assert wrong.obstacle.startswith("forward raised RuntimeError: ")
    assert isinstance(search(Independent, {"Independent": Independent}), FoundInputs)
