"""Checks through the real command line, against an engine that follows a script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fullgraph_engine import protocol
from fullgraph_engine.protocol import Event, Position, Range

ROOT = Path(__file__).parents[2]
SCRIPTED_ENGINE = Path(__file__).with_name("scripted_engine.py")


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def script(*events: Event, torch: str = "") -> str:
    """Comments that make the scripted engine say these events, with any torch or with one."""
    return "".join(f"#{torch}! {protocol.encode(event).decode()}" for event in events)


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, without the configuration of the user."""
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull},
    )


def on(line: int, start: int, end: int) -> Range:
    return Range(Position(line, start), Position(line, end))


@dataclass
class CommandLine:
    """Runs ``fullgraph`` in a folder, with the scripted engine as its interpreter."""

    folder: Path
    interpreter: Path
    log: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")]),
            "PYTHONUTF8": "1",
            "FULLGRAPH_ENGINE_KEEP": "0",
            "SCRIPTED_LOG": str(self.log),
            **more,
        }

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "fullgraph", *arguments],
            cwd=self.folder,
            env=self.environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, stdin: bytes = b"", **env: str) -> Ran:
        process = self.start(*arguments, **env)
        out, err = process.communicate(stdin, timeout=60)
        return Ran(process.returncode, out.decode(), err.decode())

    def check(self, *arguments: str, stdin: bytes = b"", **env: str) -> Ran:
        return self.run("check", "--python", str(self.interpreter), *arguments, stdin=stdin, **env)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def engine_log(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def scripted_python(path: Path, **env: str) -> Path:
    """An interpreter that is the scripted engine."""
    settings = " ".join(f"{name}='{value}'" for name, value in env.items())
    path.write_text(f'#!/bin/sh\n{settings} exec {sys.executable} {SCRIPTED_ENGINE} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    interpreter = scripted_python(tmp_path / "python-with-script")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".git").mkdir()
    return CommandLine(folder, interpreter, tmp_path / "engine.log")


Write = Callable[[str, str], Path]
