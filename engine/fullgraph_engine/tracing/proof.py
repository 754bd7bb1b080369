"""Check that Dynamo's events reach the recorder.

Torch may have a private name but not call it any more. Therefore the engine traces a small program
with known results. An event missing there would be missing for the user's code too.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import logging
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..protocol.facts import Degraded, Fact
from ..torch_internals import dynamo
from . import drive
from .recorder import Recorder
from .recording import Recording

_NAMESPACE = "fullgraph_proof"


_PATH = "/fullgraph/proof.py"
"""File name of the self-check program; its frames would be left out under a file name of the
engine."""

_PROGRAM = """
import torch

def breaks(x):
    x = x + 1
    torch._dynamo.graph_break()
    x = x * 2
    if x.sum() > 0:
        x = x + 3
    return x

def does_nothing(x):
    return x.shape[0] * 2

def branches(x, flag):
    y = x.relu()
    return y + 1 if flag else y

def fixes_size(x):
    return x * 2 if x.shape[0] == 4 else x

def calls_operator(x):
    return torch.ops.fullgraph_proof.untagged(x)
"""


def _line_of(beginning: str) -> int:
    """Return the zero-based line of the self-check program that begins with the text
    ``beginning``.
    """
    lines = [line.strip() for line in _PROGRAM.split("\n")]
    return next(number for number, line in enumerate(lines) if line.startswith(beginning))


@dataclass(frozen=True)
class _Statement:
    """A statement about the recording of the self-check program, which is true if the recorder
    works.

    ``holds`` evaluates it. If the result is False, the engine cannot show ``fact`` with the
    installed torch.
    """

    fact: Fact
    what: str
    holds: Callable[[Recording], bool]


def prove() -> tuple[Degraded, ...]:
    """Trace a small program that shows every fact; return the facts that the recorder did not see.

    Call it in a process that ends afterwards: it registers an operator and leaves compiled code.
    """
    module = sys.modules[_NAMESPACE] = types.ModuleType(_NAMESPACE)
    # Set a module and source, without which Dynamo treats functions differently.
    linecache.cache[_PATH] = (len(_PROGRAM), None, _PROGRAM.splitlines(keepends=True), _PATH)
    program = vars(module)
    exec(compile(_PROGRAM, _PATH, "exec"), program)
    found: dict[Fact, list[str]] = {}
    with drive.tensor_mode(True), _silence_logging():
        for call, statements in _proof_calls(program):
            try:
                recording = call()
                failure = recording.failure
                loss = f"{failure.kind}: {failure.message}" if failure is not None else ""
                loss = loss or "; ".join(recording.losses)
            except Exception as error:  # other releases of torch may raise any exception
                recording, loss = Recording(), f"{type(error).__name__}: {error}"
            suffix = f" ({' '.join(loss.split())[:200]})" if loss else ""
            for statement in statements:
                if loss or not _is_seen(statement, recording):
                    found.setdefault(statement.fact, []).append(statement.what + suffix)
    return tuple(
        Degraded(fact, f"a test program did not show {', '.join(what)}")
        for fact, what in found.items()
    )


@contextlib.contextmanager
def _silence_logging() -> Iterator[None]:
    """Disable logging in the ``with`` block, because its program deliberately reaches Dynamo's
    recompile limit.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _is_seen(statement: _Statement, recording: Recording) -> bool:
    try:
        return statement.holds(recording)
    except (IndexError, AttributeError):  # the fact is missing from the recording
        return False


def _proof_calls(
    program: dict[str, Any],
) -> Iterator[tuple[Callable[[], Recording], tuple[_Statement, ...]]]:
    yield (
        lambda: _trace_call(program["breaks"], torch.ones(4, 3)),
        (
            _Statement("graphs", "graphs", lambda r: len(r.graphs) == 3 and r.op_count > 3),
            _Statement(
                "graphs",
                "the line of an operator",
                lambda r: r.graphs[0].ops[0].stack[-1].line == _line_of("x = x + 1"),
            ),
            _Statement(
                "breaks",
                "graph breaks",
                lambda r: (
                    [one.stack[-1].line for one in r.breaks]
                    == [_line_of("torch._dynamo.graph_break"), _line_of("if x.sum()")]
                ),
            ),
            _Statement(
                "breaks",
                "reasons of graph breaks",
                lambda r: all(one.causes and one.causes[0].explanation for one in r.breaks),
            ),
            _Statement(
                "lines",
                "the lines of a function",
                lambda r: _line_of("x = x + 1") in {one.start.line for one in r.lines.traced},
            ),
            _Statement("values", "tensors", lambda r: bool(r.seen)),
            _Statement("shapes", "sizes", lambda r: any(place.values for place in r.shapes)),
        ),
    )
    yield (
        lambda: _trace_call(program["does_nothing"], torch.ones(4)),
        (_Statement("skips", "a skipped frame", lambda r: bool(r.skips[0].reason)),),
    )
    yield (
        lambda: _trace_two_calls(program["branches"], torch.ones(4)),
        (
            _Statement(
                "guards",
                "a guard",
                lambda r: any("x" in one.source and "TENSOR" in one.kind for one in r.guards),
            ),
            _Statement("guards", "the line of a guard", lambda r: any(g.stack for g in r.guards)),
            _Statement("recompiles", "a recompile", lambda r: len(r.recompiles) == 1),
            _Statement(
                "recompiles",
                "the guard that failed",
                lambda r: "flag" in r.recompiles[0].failures[0].source,
            ),
        ),
    )
    yield (
        lambda: _trace_two_calls(program["branches"], torch.ones(4), limit=1),
        (_Statement("recompiles", "the recompile limit", lambda r: bool(r.recompiles[0].limit)),),
    )
    yield (
        lambda: _trace_call(program["fixes_size"], x := torch.ones(4, 3), dynamic=[(x, 0)]),
        (
            _Statement(
                "specializations",
                "a specialized dimension",
                lambda r: (
                    (r.specializations[0].value, r.specializations[0].stack[-1].line)
                    == ("4", _line_of("return x * 2"))
                ),
            ),
        ),
    )
    yield (
        lambda: _trace_operator_call(program["calls_operator"]),
        (
            _Statement(
                "compliance",
                "an operator that is not PT2-compliant",
                lambda r: not r.custom_ops[0].compliant,
            ),
        ),
    )


def installation_digest() -> str:
    """Return a digest that changes whenever the result of :func:`prove` may change.

    It covers the versions of torch and Python, Dynamo's files and the engine's files. Files are
    compared by size and modification time, because users patch torch by hand.
    """
    digest = hashlib.blake2b(digest_size=12)
    engine_folder = Path(__file__).parents[1]
    files = [
        *sorted(engine_folder.glob("torch_internals/*.py")),
        *sorted(engine_folder.glob("tracing/*.py")),
        *sorted(Path(torch.__file__).parent.glob("_dynamo/**/*.py")),
        Path(torch.__file__).with_name("version.py"),
        Path(torch.__file__).parent / "fx" / "experimental" / "symbolic_shapes.py",
    ]
    digest.update(f"{sys.version} {torch.__version__} {torch.__file__}".encode())
    for file in files:
        status = file.stat()
        digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns} ".encode())
    return digest.hexdigest()


def _trace_call(function: Callable[..., Any], *args: Any, **options: Any) -> Recording:
    dynamo.reset()
    return drive.trace(function, args, {}, file=_PATH, **options)


def _trace_two_calls(function: Callable[..., Any], x: torch.Tensor, limit: int = 8) -> Recording:
    """Trace two calls of the self-check program. The second call recompiles it, because a flag
    differs. ``limit`` is Dynamo's recompile limit.
    """
    dynamo.reset()
    watch = Recorder(drive.BOTTOM, file=_PATH)
    with watch.listen() as recording, dynamo.config.patch(recompile_limit=limit):
        compiled = torch.compile(function, backend=drive.NoBackend(), dynamic=False)
        for flag in (True, False):
            compiled(x, flag)
    return recording


def _trace_operator_call(function: Callable[..., Any]) -> Recording:
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    library.define("untagged(Tensor x) -> Tensor")
    library.impl("untagged", lambda x: x.clone(), "CompositeExplicitAutograd")
    return _trace_call(function, torch.ones(4))
