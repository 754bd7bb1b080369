"""A coding agent for tests: the client of the MCP SDK, with the server in this process or its own.

The engine is the stub of the tests of the language server, which follows comments in the text.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.server import make_server
from fullgraph.session.trust import TrustedFolders, trusted_folders_file

ROOT = Path(__file__).parents[2]
STUB_ENGINE = ROOT / "tests" / "server" / "stub_engine.py"


@dataclass
class Project:
    """A folder with files, whose interpreter is the stub engine."""

    folder: Path
    interpreter: Path
    environment: Mapping[str, str]

    def write(self, name: str, text: str) -> str:
        """Write a file and return its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    @property
    def counted(self) -> list[str]:
        """Starts and requests of the engine so far."""
        path = self.folder.parent / "count"
        return path.read_text().splitlines() if path.exists() else []


def make_project(folder: Path, *, trusted: bool = True) -> Project:
    """Make a project in an empty folder, which the user trusts."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    interpreter = folder / "python-stub"
    # Its first argument is the boot script of the real engine.
    interpreter.write_text(
        f"#!/bin/sh\nshift\nSTUB_ENGINE=count={folder / 'count'} "
        f'exec {sys.executable} {STUB_ENGINE} "$@"\n'
    )
    interpreter.chmod(0o755)
    environment = {"XDG_CONFIG_HOME": str(folder / "config"), "FULLGRAPH_ENGINE_KEEP": "0"}
    if trusted:
        TrustedFolders(trusted_folders_file(environment)).add([project])
    return Project(project, interpreter, environment)


class ToolFailed(Exception):
    """Raised if a tool call is answered with an error; the message is the text for the model."""


@dataclass
class Agent:
    """Calls tools, and keeps the messages of their progress."""

    client: Client
    progress: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer.

        Raises:
            ToolFailed: The answer is an error.
        """

        async def keep_progress(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(message or "")

        result = await self.client.call_tool(tool, arguments, progress_callback=keep_progress)
        text = getattr(result.content[0], "text", "")
        if result.is_error:
            raise ToolFailed(text)
        assert json.loads(text) == result.structured_content, "the text and the data are equal"
        return dict(result.structured_content or {})


@contextlib.asynccontextmanager
async def agent_in_process(project: Project) -> AsyncIterator[Agent]:
    """An agent whose server runs in this process; ``project.environment`` must be set."""
    flags = {"interpreter": str(project.interpreter)}
    async with Client(make_server(Analyzer(flags)), mode="legacy") as client:
        yield Agent(client)


def server_parameters(project: Project, *arguments: str) -> StdioServerParameters:
    """Command line of ``fullgraph mcp`` for the SDK's client."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME")}
    python_path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "fullgraph", "mcp", "--python", str(project.interpreter), *arguments],
        env={**kept, **project.environment, "PYTHONPATH": python_path},
        cwd=project.folder,
    )


@contextlib.asynccontextmanager
async def agent_of_process(project: Project) -> AsyncIterator[Agent]:
    """An agent whose server is a process, as coding agents start it."""
    async with Client(stdio_client(server_parameters(project))) as client:
        yield Agent(client)


def make_notebook(*sources: str) -> str:
    """Return the text of a notebook with these code cells."""
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
