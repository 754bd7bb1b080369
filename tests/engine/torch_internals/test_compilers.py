"""Compilers that Inductor needs: found without starting one, with the command that installs one."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def compilers() -> ModuleType:
    pytest.importorskip("torch")
    from fullgraph_engine.torch_internals import compilers

    return compilers


def only(*programs: str) -> Callable[[str], str | None]:
    """A function like ``shutil.which`` on a machine that has only these programs."""
    return lambda name: f"/usr/bin/{name}" if name in programs else None


@pytest.mark.parametrize(
    ("platform", "programs", "install"),
    [
        ("linux", ["apt-get"], "apt install g++"),
        ("linux", ["dnf"], "dnf install gcc-c++"),
        ("linux", [], "package manager"),
        ("darwin", [], "xcode-select --install"),
        ("win32", [], "Build Tools"),
    ],
)
def test_a_missing_cpp_compiler_is_named_with_the_command_of_the_platform(
    monkeypatch: pytest.MonkeyPatch,
    compilers: Any,
    platform: str,
    programs: list[str],
    install: str,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(shutil, "which", only(*programs))
    (missing,) = compilers.find_missing_compilers({"cpu"})
    assert (missing.name, missing.device) == ("a C++ compiler", "the CPU")
    assert install in missing.install


def test_a_present_cpp_compiler_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, compilers: Any
) -> None:
    names = [name for name in compilers.inductor_config().cpp.cxx if name]
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", only(*names))
    assert compilers.find_missing_compilers({"cpu"}) == ()


def test_the_compiler_of_macos_counts_only_with_its_tools(
    monkeypatch: pytest.MonkeyPatch, compilers: Any
) -> None:
    names = [name for name in compilers.inductor_config().cpp.cxx if name]
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(shutil, "which", only(*names))
    monkeypatch.setattr(compilers, "_MACOS_TOOLS", ())
    assert len(compilers.find_missing_compilers({"cpu"})) == 1
    monkeypatch.setattr(compilers, "_MACOS_TOOLS", ("/",))
    assert compilers.find_missing_compilers({"cpu"}) == ()


@pytest.mark.parametrize("installed", [True, False])
def test_triton_is_needed_for_cuda_only(
    monkeypatch: pytest.MonkeyPatch, compilers: Any, installed: bool
) -> None:
    real = importlib.util.find_spec
    fake = importlib.util.spec_from_loader("triton", None) if installed else None
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: fake if name == "triton" else real(name)
    )
    monkeypatch.setattr(shutil, "which", only("g++"))
    names = [one.name for one in compilers.find_missing_compilers({"cuda"})]
    assert names == ([] if installed else ["Triton"])
