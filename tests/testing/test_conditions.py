"""Conditions of entries, and which entries match which causes."""

from __future__ import annotations

import dataclasses
from importlib import metadata
from pathlib import Path

import pytest

from fullgraph.testing.causes import Cause, function_at, package_path
from fullgraph.testing.expectation_files import Expectation, compare, condition_holds

BREAK = Cause("graph-break/GB0059", "net/model.py", "Net.forward", "print(x)", "It prints")
RECOMPILE = Cause("recompile/size", "net/model.py", "Net.forward", "y = x[0]", "`x` changed")


@pytest.mark.parametrize(
    ("condition", "version", "holds"),
    [
        ("torch>=2.14", "2.13.0+cpu", False),
        ("torch>=2.14", "2.14.1", True),
        ("torch>=2.14", "2.14.0.dev20260301+cu130", True),
        ("torch<2.14,!=2.12.1", "2.12.1", False),
        ("torch>=2; python_version < '3'", "2.14.0", False),
        ("python_version >= '3.8'", "2.14.0", True),
        ("sys_platform == 'nowhere'", "2.14.0", False),
    ],
)
def test_conditions(
    monkeypatch: pytest.MonkeyPatch, condition: str, version: str, holds: bool
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert condition_holds(condition) is holds


def test_a_requirement_of_a_missing_package_does_not_hold() -> None:
    assert not condition_holds("no-such-package-exists>=1")


def test_one_entry_matches_one_cause() -> None:
    again = dataclasses.replace(BREAK, code="graph-break/GB0001")
    assert compare([Expectation(BREAK)], [again, BREAK]).unexpected == (again,)
    assert not compare([Expectation(BREAK)], [again]).unexpected
    elsewhere = dataclasses.replace(BREAK, function="Net.other")
    found = compare([Expectation(BREAK)], [elsewhere])
    assert found.unexpected == (elsewhere,) and found.missing == (Expectation(BREAK),)


def test_a_recompile_only_matches_with_the_same_value() -> None:
    other = dataclasses.replace(RECOMPILE, message="`self.calls` changed")
    assert compare([Expectation(RECOMPILE)], [other]).unexpected == (other,)


def test_locations(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "net"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    model = folder / "model.py"
    model.write_text(
        "x = 1\nclass Net:\n    @decorated\n    def forward(self):\n        return 1\n"
    )
    assert package_path(str(model)) == "net/model.py"
    functions = [function_at(str(model), line) for line in range(5)]
    assert functions == ["<module>", "Net", "Net.forward", "Net.forward", "Net.forward"]
