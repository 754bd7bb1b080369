"""What a user may allow: each entry allows that and nothing else, in every layer."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.host.test_host_confinement import done
from tests.engine.hosts import Engine, Result, has_landlock, started_engine

from fullgraph_engine.host import caches
from fullgraph_engine.protocol import Allowance, Allowed, Finding, Limits, Ready
from fullgraph_engine.protocol.sandbox import WritableFolder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="layers of Linux")

WRITES = """\
def by_python(path):
    return tried(lambda: open(path, "w").write("x"))
def by_c(path):
    libc.fopen.restype = ctypes.c_void_p
    return bool(libc.fopen(path.encode(), b"w"))
"""
EVERYTHING = """\
found = {}
def attempt(name, call, *arguments):
    found[name] = tried(call, *arguments) != "PermissionError"
attempt("write", open, ELSEWHERE, "w")
attempt("program", subprocess.run, ["true"])
attempt("network", socket.create_connection, ("127.0.0.1", PORT), 5)
found["write in C"] = libc.open(ELSEWHERE.encode(), 0o101, 0o600) >= 0
found["program in C"] = said(libc.execve, b"/nowhere", None, None) != 1
found["network in C"] = libc.socket(2, 1, 0) >= 0
found["services in C"] = libc.socket(1, 1, 0) >= 0
[name for name in found if found[name]]"""
"""All that is refused by default; what is not refused."""


@contextlib.contextmanager
def allowing(allowed: Allowed, processes: str = "fork", **options: object) -> Iterator[Engine]:
    engine, _ = started_engine(processes, allowed=allowed, **options)
    try:
        yield engine
    finally:
        assert engine.close() == 0


@pytest.fixture
def listening() -> Iterator[int]:
    """The port of a server of this machine that says one word to each client."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                client.sendall(b"hello")
                client.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def not_refused(engine: Engine, elsewhere: Path, port: int) -> object:
    """Of everything, what is not refused; files are written to ``elsewhere``."""
    found = done(engine, f"ELSEWHERE, PORT = {str(elsewhere / 'new')!r}, {port}\n{EVERYTHING}")
    assert not (elsewhere / "new").exists()
    return found


# -- writing --------------------------------------------------------------------------------------


def test_nothing_is_allowed_by_default(engine: Engine, tmp_path: Path, listening: int) -> None:
    assert not_refused(engine, tmp_path, listening) == []


def test_a_folder_may_be_written_and_no_other(
    processes: str, tmp_path: Path, listening: int
) -> None:
    inside, beside = tmp_path / "cache", tmp_path / "cache2"
    inside.mkdir()
    beside.mkdir()
    allowed = Allowed(writable=(WritableFolder(str(inside)),))
    with allowing(allowed, processes) as engine:
        written = done(
            engine,
            WRITES
            + f"""\
folder = {str(inside)!r}
os.mkdir(folder + "/below")
by_python(folder + "/a"), by_c(folder + "/below/b"), os.rename(folder + "/a", folder + "/c")""",
        )
        assert not_refused(engine, beside, listening) == []
        assert not_refused(engine, tmp_path, listening) == []
    assert written == (1, True, None)
    assert sorted(str(path.relative_to(inside)) for path in inside.rglob("*")) == [
        "below",
        "below/b",
        "c",
    ]


def test_links_out_of_the_workspace_are_not_followed(tmp_path: Path) -> None:
    workspace, precious = tmp_path / "workspace", tmp_path / "precious"
    workspace.mkdir()
    precious.mkdir()
    (workspace / "cache").symlink_to(precious)
    folder = WritableFolder(str(workspace / "cache"), inside=str(workspace))
    path = str(workspace / "cache" / "a")
    with allowing(Allowed(writable=(folder,))) as engine:
        result = engine.analyze(f"open({path!r}, 'w')\ndef f():  # target\n    pass\n")
        assert done(engine, WRITES + f"by_python({path!r}), by_c({path!r})") == (
            "PermissionError",
            False,
        )
    assert not list(precious.iterdir())
    finding = result.trouble()
    assert "an allowed folder that is outside of the workspace" in finding.message
    assert finding.allowance is None


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with allowing(Allowed(writable=(WritableFolder(str(folder)),))) as engine:
        deed = f"tried(os.mkdir, {str(folder)!r})"
        assert done(engine, deed) == "PermissionError"
        folder.mkdir()
        assert done(engine, WRITES + f"by_python({str(folder / 'a')!r})") == 1


def test_caches_are_where_libraries_have_them(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "HF_HOME": "", "TRITON_HOME": ""}
    env |= {"TORCH_EXTENSIONS_DIR": "", "TRITON_CACHE_DIR": ""}
    allowed = Allowed(caches=("cpp-extensions", "triton-cache", "huggingface-cache"))
    with allowing(allowed, env=env) as engine:
        found = done(
            engine,
            WRITES
            + """\
home = os.path.expanduser("~")
places = ".cache/torch_extensions", ".triton", ".cache/huggingface"
names = "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "HF_HUB_OFFLINE"
said = [os.environ.get(name, "") for name in names]
[by_python(f"{home}/{place}/a") for place in places], by_c(f"{home}/a"), said""",
        )
    assert found == ([1, 1, 1], False, ["", "", "1"])


def test_variables_say_where_caches_are() -> None:
    env = {"TORCH_EXTENSIONS_DIR": "/a", "TRITON_CACHE_DIR": "/b", "HF_HOME": "/c"}
    assert caches.cache_folder("cpp-extensions", env) == "/a"
    assert caches.cache_folder("triton-cache", env) == "/b"
    assert caches.cache_folder("huggingface-cache", env) == "/c"
    assert caches.cache_folder("triton-cache", {"TRITON_HOME": "/t"}) == "/t/.triton"
    assert caches.cache_folder("huggingface-cache", {"XDG_CACHE_HOME": "/x"}) == "/x/huggingface"


# -- the network ----------------------------------------------------------------------------------


def test_the_network_may_be_used_and_nothing_else(
    processes: str, tmp_path: Path, listening: int
) -> None:
    with allowing(Allowed(network=True), processes) as engine:
        said = done(
            engine,
            f"""\
with socket.create_connection(("127.0.0.1", {listening}), 10) as to:
    word = to.recv(5)
there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
there.bind(("127.0.0.1", 0))
there.sendto(b"datagram", there.getsockname())
word, there.recv(8), os.environ.get("HF_HUB_OFFLINE", "")""",
        )
        found = not_refused(engine, tmp_path, listening)
    assert said == (b"hello", b"datagram", "")
    assert found == ["network", "network in C"]


def test_the_level_says_what_is_allowed(tmp_path: Path) -> None:
    allowed = Allowed(network=True, writable=(WritableFolder("/a"),))
    engine, events = started_engine(allowed=allowed)
    engine.close()
    ready = events[-1]
    assert isinstance(ready, Ready)
    layers = {layer.name: layer for layer in ready.sandbox.layers}
    assert layers["audit hook"].lack == "allowed are the network, writing below /a"
    assert layers["audit hook"].holds
    assert layers["seccomp"].holds
    assert not layers["network namespace"].holds
    assert layers["network namespace"].lack == "network access is allowed"


# -- programs -------------------------------------------------------------------------------------


@pytest.mark.skipif(not has_landlock(), reason="only the kernel sees what programs do")
def test_programs_may_be_started_and_are_confined(
    processes: str, tmp_path: Path, listening: int
) -> None:
    with allowing(Allowed(programs=True), processes) as engine:
        said = done(
            engine,
            f"""\
said = subprocess.run(["sh", "-c", "echo $((6 * 7))"], capture_output=True).stdout
status = os.system("exit 3")
waits = subprocess.Popen(["sleep", "600"])
waits.kill()
code = "import socket; socket.create_connection(('127.0.0.1', {listening}))"
connected = subprocess.run([sys.executable, "-c", code], capture_output=True)
written = subprocess.run(["sh", "-c", "echo > {tmp_path}/new"], capture_output=True)
said, os.waitstatus_to_exitcode(status), waits.wait(), connected.returncode, written.returncode""",
        )
        found = not_refused(engine, tmp_path, listening)
    assert isinstance(said, tuple)
    assert said[:3] == (b"42\n", 3, -9)
    assert 0 not in said[3:]
    assert found == ["program", "program in C"]


@pytest.mark.skipif(not has_landlock(), reason="without it programs may signal as they like")
def test_what_may_start_programs_signals_no_others(processes: str) -> None:
    with allowing(Allowed(programs=True), processes) as engine:
        deed = f"tried(os.kill, {os.getpid()}, 0)"
        assert done(engine, deed) in ("PermissionError", "ProcessLookupError")


def test_multiprocessing_is_a_way_to_start_programs() -> None:
    with allowing(Allowed(programs=True)) as engine:
        found = done(
            engine,
            """\
import multiprocessing
with multiprocessing.get_context("fork").Pool(1) as pool:
    squares = pool.map(abs, [-1, -2])
squares""",
        )
    assert found == [1, 2]


EXTENSION = """\
import ctypes
from torch.utils.cpp_extension import load
path = load("fullgraph_test", [SOURCE], is_python_module=False)
answer = ctypes.CDLL(path).answer()
# fullgraph: x=f32[2]
def f(x):
    return x + answer
"""


@pytest.mark.slow
@pytest.mark.real_engine
@pytest.mark.skipif(not shutil.which("ninja") or not shutil.which("g++"), reason="no compiler")
def test_an_extension_is_built_and_kept(tmp_path: Path) -> None:
    source = tmp_path / "answer.cpp"
    source.write_text('extern "C" int answer() { return 42; }')
    allowed = Allowed(programs=True, caches=("cpp-extensions",))
    env = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}
    engine, _ = started_engine("fork", pipeline="", env=env, allowed=allowed)
    try:
        text = EXTENSION.replace("SOURCE", repr(str(source)))
        result = engine.analyze(text, path=str(tmp_path / "x.py"), limits=Limits())
    finally:
        engine.close()
    assert result.findings == []
    assert result.status("f") == "traced"
    assert (tmp_path / "extensions" / "fullgraph_test" / "fullgraph_test.so").exists()


# -- findings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "allowance"),
    [
        ("open('/nowhere/x', 'w')", Allowance("write", "/nowhere")),
        ("import subprocess; subprocess.run(['ls'])", Allowance("subprocess")),
        ("import socket; socket.create_connection(('1.1.1.1', 1))", Allowance("network")),
        ("open(HOME + '/.triton/x', 'w')", Allowance("triton-cache")),
        ("open(HOME + '/.cache/huggingface/x', 'w')", Allowance("huggingface-cache")),
        ("os.environ['HF_TOKEN']", Allowance("read-env", "HF_TOKEN")),
    ],
)
@pytest.mark.parametrize("at_module_level", [True, False])
def test_a_finding_says_what_would_allow_it(
    deed: str, allowance: Allowance, at_module_level: bool, tmp_path: Path
) -> None:
    lines = ["import os", "HOME = os.path.expanduser('~')", "def f():  # target", f"    {deed}"]
    if at_module_level:
        lines = [*lines[:2], deed]
    env = {"HOME": str(tmp_path), "HF_TOKEN": "secret", "XDG_CACHE_HOME": "", "HF_HOME": ""}
    engine, _ = started_engine("fork", env={**env, "TRITON_CACHE_DIR": "", "TRITON_HOME": ""})
    try:
        result = engine.analyze("\n".join(lines) + "\ndef g():  # target\n    pass\n")
    finally:
        engine.close()
    finding = the_trouble(result)
    assert finding.allowance == allowance
    flag = f"`--allow {allowance}`"
    assert [hint for hint in finding.hints if flag in hint] == list(finding.hints) != []


def the_trouble(result: Result) -> Finding:
    finding = result.trouble()
    assert finding.code == "trace/sandboxed"
    return finding
