"""Whether what Dynamo does reaches us.

That torch has a name does not mean that it still calls it. So a small program of which everything
is known is traced: what is not seen of it would not be seen of the user's code either.
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
"""A file outside of ours, whose frames would be left out."""

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


def _line(words: str) -> int:
    """Zero-based line of the program that begins with these words."""
    lines = [line.strip() for line in _PROGRAM.split("\n")]
    return next(number for number, line in enumerate(lines) if line.startswith(words))


@dataclass(frozen=True)
class _Statement:
    """What must be seen of a call: ``holds`` of its recording, or ``fact`` is degraded."""

    fact: Fact
    what: str
    holds: Callable[[Recording], bool]


def prove() -> tuple[Degraded, ...]:
    """The facts that are not seen of a program that has them.

    Registers an operator, and leaves Dynamo with compiled code: call it in a process that ends.
    """
    module = sys.modules[_NAMESPACE] = types.ModuleType(_NAMESPACE)
    # Dynamo looks at functions that have neither module nor source in another way.
    linecache.cache[_PATH] = (len(_PROGRAM), None, _PROGRAM.splitlines(keepends=True), _PATH)
    program = vars(module)
    exec(compile(_PROGRAM, _PATH, "exec"), program)
    found: dict[Fact, list[str]] = {}
    with drive.tensor_mode(True), _silence():
        for call, statements in _calls(program):
            try:
                recording = call()
                failure = recording.failure
                lost = f"{failure.kind}: {failure.message}" if failure is not None else ""
                lost = lost or "; ".join(recording.losses)
            except Exception as error:  # whatever another release raises
                recording, lost = Recording(), f"{type(error).__name__}: {error}"
            because = f" ({' '.join(lost.split())[:200]})" if lost else ""
            for statement in statements:
                if lost or not _holds(statement, recording):
                    found.setdefault(statement.fact, []).append(statement.what + because)
    return tuple(
        Degraded(fact, f"not seen of a test program: {', '.join(what)}")
        for fact, what in found.items()
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """The program reaches a limit, of which Dynamo warns."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _holds(statement: _Statement, recording: Recording) -> bool:
    try:
        return statement.holds(recording)
    except (IndexError, AttributeError):  # what it is about is not there at all
        return False


def _calls(
    program: dict[str, Any],
) -> Iterator[tuple[Callable[[], Recording], tuple[_Statement, ...]]]:
    yield (
        lambda: _traced(program["breaks"], torch.ones(4, 3)),
        (
            _Statement("graphs", "graphs", lambda r: len(r.graphs) == 3 and r.op_count > 3),
            _Statement(
                "graphs",
                "the line of an op",
                lambda r: r.graphs[0].ops[0].stack[-1].line == _line("x = x + 1"),
            ),
            _Statement(
                "breaks",
                "graph breaks",
                lambda r: (
                    [one.stack[-1].line for one in r.breaks]
                    == [_line("torch._dynamo.graph_break"), _line("if x.sum()")]
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
                lambda r: _line("x = x + 1") in {one.start.line for one in r.lines.traced},
            ),
            _Statement("values", "tensors", lambda r: bool(r.seen)),
            _Statement("shapes", "sizes", lambda r: any(place.values for place in r.shapes)),
        ),
    )
    yield (
        lambda: _traced(program["does_nothing"], torch.ones(4)),
        (_Statement("skips", "a skipped frame", lambda r: bool(r.skips[0].reason)),),
    )
    yield (
        lambda: _called_twice(program["branches"], torch.ones(4)),
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
        lambda: _called_twice(program["branches"], torch.ones(4), limit=1),
        (
            _Statement(
                "recompiles", "the limit of recompiles", lambda r: bool(r.recompiles[0].limit)
            ),
        ),
    )
    yield (
        lambda: _traced(program["fixes_size"], x := torch.ones(4, 3), dynamic=[(x, 0)]),
        (
            _Statement(
                "specializations",
                "a specialized dimension",
                lambda r: (
                    (r.specializations[0].value, r.specializations[0].stack[-1].line)
                    == ("4", _line("return x * 2"))
                ),
            ),
        ),
    )
    yield (
        lambda: _with_operator(program["calls_operator"]),
        (
            _Statement(
                "compliance",
                "an operator that is not PT2-compliant",
                lambda r: not r.custom_ops[0].compliant,
            ),
        ),
    )


def build() -> str:
    """Differs wherever the outcome might: the torch, the Python, Dynamo's files, and our own.

    Files are told by their sizes and times: a torch may be patched by hand.
    """
    digest = hashlib.blake2b(digest_size=12)
    own = Path(__file__).parents[1]
    files = [
        *sorted(own.glob("torch_internals/*.py")),
        *sorted(own.glob("tracing/*.py")),
        *sorted(Path(torch.__file__).parent.glob("_dynamo/**/*.py")),
        Path(torch.__file__).with_name("version.py"),
        Path(torch.__file__).parent / "fx" / "experimental" / "symbolic_shapes.py",
    ]
    digest.update(f"{sys.version} {torch.__version__} {torch.__file__}".encode())
    for file in files:
        found = file.stat()
        digest.update(f"{file.name} {found.st_size} {found.st_mtime_ns} ".encode())
    return digest.hexdigest()


def _traced(function: Callable[..., Any], *args: Any, **options: Any) -> Recording:
    dynamo.reset()
    return drive.trace(function, args, {}, file=_PATH, **options)


def _called_twice(function: Callable[..., Any], x: torch.Tensor, limit: int = 8) -> Recording:
    """With other values of a flag, so that it is recompiled."""
    dynamo.reset()
    watch = Recorder(drive.BOTTOM, file=_PATH)
    with watch.listen() as recording, dynamo.config.patch(recompile_limit=limit):
        compiled = torch.compile(function, backend=drive.NoBackend(), dynamic=False)
        for flag in (True, False):
            compiled(x, flag)
    return recording


def _with_operator(function: Callable[..., Any]) -> Recording:
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    library.define("untagged(Tensor x) -> Tensor")
    library.impl("untagged", lambda x: x.clone(), "CompositeExplicitAutograd")
    return _traced(function, torch.ones(4))
