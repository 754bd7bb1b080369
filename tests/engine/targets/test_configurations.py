"""Configurations that a model's constructor requires, with few layers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

if str(Path(__file__).parents[1]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fullgraph_engine.targets.configurations import (
    configuration_classes,
    default_configuration,
    required_parameters,
    small_configuration,
)


@dataclass
class Small:
    num_layers: int = 2
    width: int = 64


@dataclass
class Deep:
    num_hidden_layers: int = 12
    num_heads: int = 8


@dataclass
class Both:
    encoder: Deep = field(default_factory=Deep)
    decoder_layers: int = 1_000
    name: str = "both"


class Checked:
    """Accepts other numbers of blocks, but one pair of numbers of layers only."""

    def __init__(self, n_blocks: int = 6, n_layers: int = 7) -> None:
        if n_layers != 7:
            raise ValueError("7 layers have 7 widths")
        self.n_blocks, self.n_layers = n_blocks, n_layers


class Refusing:
    @property
    def num_layers(self) -> int:
        raise RuntimeError("not one number")

    def __init__(self, num_layers: int = 5, depth: int = 4) -> None:
        self.depth = depth


class Required:
    def __init__(self, width: int, *rest: int, depth: int = 4, **more: int) -> None: ...


class Model:
    def __init__(self, config: Deep, scale: float = 1.0) -> None: ...


class Untyped:
    config_class = Deep

    def __init__(self, config): ...  # type: ignore[no-untyped-def]


class Layer:
    def __init__(self, width: int) -> None: ...


SMALL: list[tuple[type, str, tuple[str, ...]]] = [
    (Small, "Small()", ()),
    (Deep, "Deep(num_hidden_layers=2)", ("`num_hidden_layers` is 2 instead of 12",)),
    (
        Both,
        "Both(encoder=Deep(num_hidden_layers=2), decoder_layers=2)",
        ("`num_hidden_layers` is 2 instead of 12", "`decoder_layers` is 2 instead of 1,000"),
    ),
    (Checked, "Checked(n_blocks=2)", ("`n_blocks` is 2 instead of 6",)),
    (Refusing, "Refusing(depth=2)", ("`depth` is 2 instead of 4",)),
]


@pytest.mark.parametrize(("kind", "code", "changes"), SMALL)
def test_numbers_of_layers_are_small_where_the_class_accepts_it(
    kind: type, code: str, changes: tuple[str, ...]
) -> None:
    made = small_configuration(kind)
    assert (made.code, made.changes) == (code, changes)
    assert type(made.value) is kind
    assert vars(made.value) == vars(eval(code, globals()))


def test_the_default_has_all_layers() -> None:
    made = default_configuration(Both)
    assert (made.code, made.changes, made.value) == ("Both()", (), Both())


def test_only_arguments_without_a_default_are_required() -> None:
    assert required_parameters(Required) == ["width"]
    assert required_parameters(Model) == ["config"]


@pytest.mark.parametrize(
    ("model", "classes"),
    [(Model, {"config": Deep}), (Untyped, {"config": Deep}), (Layer, None), (Small, {})],
)
def test_the_classes_of_required_configurations(
    model: type, classes: dict[str, type] | None
) -> None:
    names: dict[str, Any] = globals()
    assert configuration_classes(model, names) == classes
