"""Minimize programs of graphs to a verified script; each program compiles in a forked process."""

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
from ..candidate import Backend, Candidates, ReproCandidate
from ..job import Surroundings
from ..reduce import count_lines, minimize
from ..verify.check import ScriptCheck
from ..verify.oracle import Requirement, ShownFinding
from . import minifier, oracle

_STARTED = frozenset(
    {"g++", "gcc", "c++", "cc", "clang", "clang++", "openssl", "ptxas", "ldconfig"}
)
"""Names of programs, such as compilers and checksum tools, that Inductor may start."""

_COMPILER_ERROR = re.compile(r"^.*?\berror: (.+)$", re.MULTILINE)
"""Pattern of a C++ compiler's message, after a command line that differs each time."""

_NEEDS_FORKS = (
    "Repros of a backend are minimized only in forked processes, but this engine starts a new "
    'Python for each process; set `engine.processes` to "fork" on Linux, and try again.'
)

_monotonic = time.monotonic


class GraphMinimizer(minimize.ProgramMinimizer):
    """A minimizer of programs in which a compiler backend fails on a graph."""

    # C++ compilers can be slow.
    trial_seconds = 60.0
    verifying = 20.0

    @property
    def backend(self) -> Backend:
        assert self.candidates.backend is not None
        return self.candidates.backend

    def run(self) -> None:
        self.report_progress("looking", now=True)
        if not self.around.forks:
            self.end(_NEEDS_FORKS)
            return
        before = _monotonic()
        reason = prepare_process(self.backend, self.around)
        self.until += _monotonic() - before  # the time limit does not include the preparation
        if reason:
            self.end(reason)
            return
        super().run()

    def judge(self) -> minimize.Judge:
        return partial(oracle.judge_graph_program, backend=self.backend)

    def choose_candidate(self) -> tuple[ReproCandidate, Requirement] | None:
        requirement = Requirement(self.candidates.signature, self.candidates.check, loose=True)
        found = self.find_first(requirement, self.trial_seconds)
        if found is None:
            return None
        candidate, shown = found
        if not self.backend.accuracy:
            self.candidates = _describe_failure(self.candidates, shown)
        return candidate, replace(
            requirement, check=self.candidates.check, signature=shown.signature, loose=False
        )

    def failure_message(self) -> str:
        name, count = self.backend.name, len(self.candidates.programs)
        failing = next((words for words in self.refused if ": it raises " in words), "")
        if self.backend.accuracy and failing:
            words = failing.partition(": ")[2].partition("\n")[0]
            return (
                f"`{name}` fails instead of giving wrong results ({words}); create a repro of the "
                "failure."
            )
        if any("it did not end" in words or "it crashed" in words for words in self.refused):
            return (
                f"A program compiled by `{name}` crashes the process or does not end, so no "
                "script can check for it; run the target alone with this backend."
            )
        outcome = "gives right results for" if self.backend.accuracy else "compiles"
        return (
            f"`{name}` {outcome} all captured graphs ({count} programs, each with one graph); if "
            "your program has the problem with other inputs, write them in a probe comment."
        )

    # -- reduction ----------------------------------------------------------------------------

    def reduce(self, candidate: ReproCandidate, requirement: Requirement) -> None:
        text = self.minify_graph(candidate.text, requirement)
        super().reduce(replace(candidate, text=text), requirement)

    def minify_graph(self, text: str, requirement: Requirement) -> str:
        """Make the graph of a program smaller with torch's minifier; return the new program.

        ``text`` is the program's source, and ``requirement`` the failure that it must still show.
        The minifier runs in the separate process that executed the program, and this process tests
        its proposals. They exchange lines through pipes.
        """
        come, go = os.pipe()
        back, answers = os.pipe()

        def propose(program: str) -> bytes:
            def shows(smaller: str) -> bool:
                os.write(go, json.dumps(smaller).encode() + b"\n")
                return os.read(back, 1) == b"1"

            os.close(come)
            os.close(answers)
            minifier.propose_smaller_graphs(program, self.backend, shows)
            return b"done"

        until = self.deadline()
        alone = self.around.trials(propose, max(until - _monotonic(), 1.0), until)
        trials = self.trials(requirement)
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
                    if shown and count_lines(smaller) <= count_lines(text):
                        text = smaller
                        self.history.append(text)
                        if self.is_shorter(text):
                            self.report_program(text)
                    with contextlib.suppress(OSError):
                        os.write(answers, b"1" if shown else b"0")
        finally:
            os.close(answers)
            alone.kill(number)
        return text


def _describe_failure(candidates: Candidates, shown: ShownFinding) -> Candidates:
    """Add the exception that the backend raised to the facts for the script's header."""
    kind, (words, *_) = shown.signature.kind, shown.signature.reason
    compiler = _COMPILER_ERROR.search(words)
    words = compiler[1] if compiler else words
    check = ScriptCheck.for_error(kind, f"{kind}: {words}")
    check = replace(check, before=candidates.check.before, imports=candidates.check.imports)
    first = words.partition("\n")[0]
    return replace(
        candidates, check=check, title=f"{candidates.title}: {kind}: {first}".rstrip(": ")
    )


def prepare_process(backend: Backend, around: Surroundings) -> str:
    """Prepare this process so that its forks can compile with a backend.

    Return the reason if this is impossible, else "".
    """
    # Later requests can reuse kernels and the detected processor features.
    shared = f"{os.path.dirname(around.scratch)}/inductor"  # noqa: PTH120
    backends.compile_in_this_process(shared)
    _move_headers(shared, around.scratch)
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
        except Exception:  # the exception depends on the version of torch
            return (
                "Inductor needs a C++ compiler to compile for the CPU, and there is none: install "
                "g++, or name one in the variable CXX."
            )
    if not backend.spelled.isidentifier():
        warm_up(backend.name)
    return ""


def _move_headers(folder: str, scratch: str) -> None:
    """Move precompiled headers to ``folder``, where a fresh Python finds them, too.

    Inductor chooses its folder at import, which may have happened before this process was forked.
    """
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    with contextlib.suppress(OSError, KeyError):  # on failure, Inductor uses another folder
        os.symlink(folder, f"{scratch}/torchinductor_{getpass.getuser()}")  # noqa: PTH211
    headers = f"{folder}/precompiled_headers"
    for folder_name, path in zip(
        backends.HEADER_FOLDERS, (headers, f"{headers}/locks"), strict=True
    ):
        folder_name.replace(path)


def warm_up(backend: str) -> None:
    """Compile a small function with a backend, so that forks inherit the imported modules.

    The function does not compute gradients, because autograd threads do not survive a fork.
    """
    with drive.use_real_backends(), torch.no_grad(), contextlib.suppress(Exception):
        torch.compile(lambda x: torch.relu(x) + 1, backend=backend)(torch.ones(8))
    dynamo.reset()
    dynamo.counters.clear()
