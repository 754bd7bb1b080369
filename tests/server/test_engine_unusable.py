"""What the real engine says of interpreters that it cannot work in."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from fullgraph.engines import Engine, EngineListener, EngineState, EngineStatus

VERSION = "__version__ = '2.13.0'\n"

TORCHES = {
    "raises": ("raise OSError('libcudart.so.12: no such file')", "OSError: libcudart.so.12"),
    "leaves": ("import sys; sys.exit('no license')", "SystemExit: no license"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV while it imported torch"),
    "ends": ("import os; os._exit(7)", "exited unexpectedly with status 7"),
    "lacks": ("import absent_dependency", "ModuleNotFoundError: No module named"),
    "is a stub": ("", "cannot be imported: AttributeError"),
    "is old": ("__version__ = '2.5.1'; print('{}' * 10000)", "torch 2.5.1"),
}


async def settled(interpreter: Path) -> tuple[EngineStatus, list[EngineStatus]]:
    statuses: list[EngineStatus] = []
    engine = Engine(interpreter, EngineListener(status=statuses.append), back_off=(0.01,))
    await engine.start()
    try:
        return await engine.ready(), list(statuses)
    finally:
        await engine.close()


def told(statuses: list[EngineStatus]) -> int:
    """How often a user is told that something is wrong."""
    wrong = (EngineState.UNUSABLE, EngineState.CRASHED)
    return sum(status.state in wrong and not status.quiet for status in statuses)


@pytest.mark.parametrize("name", TORCHES)
async def test_a_torch_that_cannot_be_imported(tmp_path: Path, name: str) -> None:
    code, words = TORCHES[name]
    torch = tmp_path / "it's here" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text(code)
    (torch / "version.py").write_text(VERSION)
    interpreter = tmp_path / "a python"
    path = shlex.quote(str(torch.parent))
    interpreter.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    status, statuses = await settled(interpreter)
    assert status.state is EngineState.UNUSABLE
    assert words in status.message and status.message.endswith(".")
    step = "pip install -U torch" if name == "is old" else "-c 'import torch'`, and reinstall torch"
    assert step in status.next_step and status.next_step.endswith(".")
    assert told(statuses) == 1


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.9"])
async def test_a_python_that_is_too_old(version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} here")
    status, statuses = await settled(found[0])
    assert status.state is EngineState.UNUSABLE
    assert str(found[0].parent) in status.message
    assert "Python 3.10 or newer" in status.next_step
    assert told(statuses) == 1


@pytest.mark.parametrize("content", [b"MZ\x90\x00" + bytes(100), b"\x7fELF" + bytes(100), b""])
async def test_a_program_of_another_platform(tmp_path: Path, content: bytes) -> None:
    interpreter = tmp_path / "python.exe"
    interpreter.write_bytes(content)
    interpreter.chmod(0o755)
    status, statuses = await settled(interpreter)
    assert status.state is EngineState.UNUSABLE
    assert str(interpreter) in status.message and "fullgraph.interpreter" in status.next_step
    assert told(statuses) == 1
