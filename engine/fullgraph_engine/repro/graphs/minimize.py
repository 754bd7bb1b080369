"""From the programs of graphs to a verified script: with the backend, each time in a fork."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import sys
import time
from dataclasses import replace
from functools import partial

import torch

from ...torch_internals import backends, dynamo
from ...tracing import drive
from ..candidate import Backend, Candidate, Candidates
from ..emit.script import lines_of_code
from ..job import Surroundings
from ..reduce import minimize
from ..verify.check import Check
from ..verify.oracle import Requirement, Shown
from . import minifier, oracle

_STARTED = frozenset(
    {"g++", "gcc", "c++", "cc", "clang", "clang++", "openssl", "ptxas", "ldconfig"}
)
"""Besides this interpreter, what Inductor starts: compilers, and what it makes checksums with."""

_COMPILER_ERROR = re.compile(r"^.*?\berror: (.+)$", re.MULTILINE)
"""What a C++ compiler says, behind a command line that differs each time."""

_NEEDS_FORKS = (
    "A program for a backend is minimized only in forks of one process, and this engine starts "
    'each process afresh; set `engine.processes` to "fork" on Linux, and ask again.'
)

_monotonic = time.monotonic


class Minimizer(minimize.Minimizer):
    """Of candidates with a backend."""

    # A compiler may be slow.
    trial_seconds = 60.0
    verifying = 20.0

    @property
    def backend(self) -> Backend:
        assert self.candidates.backend is not None
        return self.candidates.backend

    def run(self) -> None:
        self.progress("looking", now=True)
        if not self.around.forks:
            self.end(_NEEDS_FORKS)
            return
        before = _monotonic()
        reason = prepare(self.backend, self.around)
        self.until += _monotonic() - before  # it says nothing about the graphs
        if reason:
            self.end(reason)
            return
        super().run()

    def judge(self) -> minimize.Judge:
        return partial(oracle.judge, backend=self.backend)

    def choose(self) -> tuple[Candidate, Requirement] | None:
        wish = Requirement(self.candidates.signature, self.candidates.check, loose=True)
        found = self.first(wish, self.trial_seconds)
        if found is None:
            return None
        candidate, shown = found
        if not self.backend.accuracy:
            self.candidates = _told(self.candidates, shown)
        return candidate, replace(
            wish, check=self.candidates.check, signature=shown.signature, loose=False
        )

    def nothing(self) -> str:
        name, count = self.backend.name, len(self.candidates.programs)
        failing = next((words for words in self.refused if ": it raises " in words), "")
        if self.backend.accuracy and failing:
            words = failing.partition(": ")[2].partition("\n")[0]
            return f"`{name}` fails instead of giving wrong results, {words}; ask for the failure."
        if any("it did not end" in words or "it crashed" in words for words in self.refused):
            return (
                f"A program compiled by `{name}` crashes the process or does not end, which no "
                "script can tell of itself; run the target alone with this backend."
            )
        outcome = "gives right results for" if self.backend.accuracy else "compiles"
        return (
            f"`{name}` {outcome} all that was captured ({count} programs, each with one graph); "
            "give the probe other inputs if it does not in your program."
        )

    # -- smaller ------------------------------------------------------------------------------

    def reduce(self, candidate: Candidate, wish: Requirement) -> None:
        text = self.minified(candidate.text, wish)
        super().reduce(replace(candidate, text=text), wish)

    def minified(self, text: str, wish: Requirement) -> str:
        """The graph made smaller by torch's strategies, in a process of their own.

        They run where the program was executed, which is nowhere else; what they propose is judged
        as every other program is. The two processes talk through pipes, a line at a time.
        """
        come, go = os.pipe()
        back, answers = os.pipe()

        def propose(program: str) -> bytes:
            def shows(smaller: str) -> bool:
                os.write(go, json.dumps(smaller).encode() + b"\n")
                return os.read(back, 1) == b"1"

            os.close(come)
            os.close(answers)
            minifier.minify(program, self.backend, shows)
            return b"done"

        until = self.deadline()
        alone = self.around.trials(propose, max(until - _monotonic(), 1.0), until)
        trials = self.trials(wish)
        tested: dict[str, bool] = {}
        number = alone.submit(text)
        os.close(go)
        os.close(back)
        try:
            with os.fdopen(come, encoding="utf-8") as proposals:
                for line in proposals:
                    if _monotonic() > until:
                        break
                    smaller = json.loads(line)
                    if smaller not in tested:
                        tested[smaller] = self.shows(smaller, trials)
                    shown = tested[smaller]
                    if shown and lines_of_code(smaller) <= lines_of_code(text):
                        text = smaller
                        self.history.append(text)
                        if self.is_shorter(text):
                            self.better(text)
                    with contextlib.suppress(OSError):
                        os.write(answers, b"1" if shown else b"0")
        finally:
            os.close(answers)
            alone.kill(number)
        return text


def _told(candidates: Candidates, shown: Shown) -> Candidates:
    """With what is known once the first program was compiled: what the backend raises."""
    kind, (words, *_) = shown.signature.kind, shown.signature.reason
    compiler = _COMPILER_ERROR.search(words)
    words = compiler[1] if compiler else words
    check = Check.of_error(kind, f"{kind}: {words}")
    check = replace(check, before=candidates.check.before, imports=candidates.check.imports)
    first = words.partition("\n")[0]
    return replace(
        candidates, check=check, title=f"{candidates.title}: {kind}: {first}".rstrip(": ")
    )


def prepare(backend: Backend, around: Surroundings) -> str:
    """Make this process one whose forks compile with a backend; why that is not possible."""
    inductor = backends.inductor_config()
    # Pools of processes do not survive forks, and what a cache gives was not compiled.
    given = {
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        # Of a kernel's text, and of what the processor can do, a later request may know.
        "TORCHINDUCTOR_CACHE_DIR": f"{os.path.dirname(around.scratch)}/inductor",  # noqa: PTH120
    }
    os.environ.update(given)
    inductor.compile_threads = 1
    inductor.fx_graph_cache = False
    backends.functorch_config().enable_autograd_cache = False
    _move_headers(given["TORCHINDUCTOR_CACHE_DIR"], around.scratch)
    own = os.path.basename(sys.executable)  # noqa: PTH119
    may_start = around.let_start(_STARTED | {own})
    if backend.name == "inductor":
        if not may_start:
            return (
                "Inductor starts a C++ compiler, and this system cannot keep one from writing "
                "outside of a scratch folder (Landlock, Linux 5.13); use the backend `aot_eager`."
            )
        try:
            backends.cpp_compiler()
        except Exception:  # what it raises depends on the version
            return (
                "Inductor needs a C++ compiler to compile for the CPU, and there is none: install "
                "g++, or name one in the variable CXX."
            )
    if not backend.spelled.isidentifier():
        _warm(backend.name)
    return ""


def _move_headers(folder: str, scratch: str) -> None:
    """Have compiled headers written to a folder that a fresh Python of ours finds them in as well.

    Inductor decides where when it is imported, which it may be in what this is a fork of.
    """
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    with contextlib.suppress(OSError, KeyError):  # without a name Inductor has another
        os.symlink(folder, f"{scratch}/torchinductor_{getpass.getuser()}")  # noqa: PTH211
    headers = f"{folder}/precompiled_headers"
    for folder_name, path in zip(
        backends.HEADER_FOLDERS, (headers, f"{headers}/locks"), strict=True
    ):
        folder_name.replace(path)


def _warm(backend: str) -> None:
    """What the first use of a backend imports and finds out, once for all forks.

    Nothing is differentiated: threads that would be started for it do not survive a fork.
    """
    with drive.use_real_backends(), torch.no_grad(), contextlib.suppress(Exception):
        torch.compile(lambda x: torch.relu(x) + 1, backend=backend)(torch.ones(8))
    dynamo.reset()
    dynamo.counters.clear()
