"""What a server knows in its environment is not for user code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.engine.hosts import has_landlock

from fullgraph.engines import process
from fullgraph.engines.engine import Engine
from fullgraph.engines.process import EngineProcess
from fullgraph_engine.protocol import Ready, SandboxLevel
from fullgraph_engine.protocol.sandbox import SandboxLayer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a call of Linux")
needs_landlock = pytest.mark.skipif(not has_landlock(), reason="no Landlock here")

BEGINNING = """\
import ctypes, os, sys
from fullgraph.engines.process import hide_environment
from fullgraph_engine.host.process_backends import landlock
if os.geteuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as after a login
word = sys.argv[1]
"""
"""Without the rights of root."""
SERVER = """\
if word == "hides":
    hide_environment()
print("ready", flush=True)
sys.stdin.read()
"""
READER = """\
if word == "in Landlock":
    landlock.restrict_process((), ())
try:
    print(open(f"/proc/{sys.argv[2]}/environ").read().count("precious"))
except PermissionError:
    print("refused")
"""


def started(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BEGINNING + code, *words],
        env={"SECRET": "precious", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("server", "reader", "said"),
    [
        ("shows", "free", "1"),
        ("hides", "free", "refused"),
        pytest.param("shows", "in Landlock", "refused", marks=needs_landlock),
    ],
)
def test_another_process_of_the_user_reads_it_unless_it_is_kept_from_it(
    server: str, reader: str, said: str
) -> None:
    with started(SERVER, server) as serving:
        assert serving.stdout is not None and serving.stdin is not None
        assert serving.stdout.readline() == "ready\n"
        with started(READER, reader, str(serving.pid)) as reading:
            found, _ = reading.communicate()
        serving.stdin.close()
    assert found == f"{said}\n"


@pytest.mark.parametrize("holds", [True, False])
def test_a_server_hides_it_where_the_kernel_does_not(
    monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    hidden: list[bool] = []
    monkeypatch.setattr(process, "hide_environment", lambda: hidden.append(True))
    engine = Engine(Path("/nowhere"))
    layer = SandboxLayer("Landlock", "" if holds else "there is none")
    running = engine._process = cast("EngineProcess", SimpleNamespace(starting=True))
    engine._handle_event(running, Ready("2.13.0", 0.0, sandbox=SandboxLevel((layer,))))
    assert hidden == ([] if holds else [True])
