"""The test of programs: execute a program and compare its findings with the wanted finding."""

from __future__ import annotations

import gc
import linecache
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

from ... import tracing
from ...findings.places import SourceText
from ...protocol import Finding
from ...targets import rng
from ...torch_internals import dynamo
from ...tracing import drive, recorder
from ...tracing.recording import Failure, Recording
from .check import ScriptCheck, assemble_check
from .finding_signature import FindingSignature, own_names
from .observed_findings import findings_of

PATH = "/repro.py"
"""Path under which programs are compiled, as it appears in their tracebacks."""


def script_path() -> str:
    """Return the value of ``__file__`` in tested programs, a path in the current folder."""
    return os.path.abspath(os.path.basename(PATH))  # noqa: PTH100, PTH119


@dataclass(frozen=True)
class Verdict:
    """Whether a program shows the required finding; if not, ``reason`` says what it showed
    instead.
    """

    interesting: bool
    reason: str = ""


@dataclass(frozen=True)
class Requirement:
    """The finding that a program must show, and how strictly the program's findings are compared
    with it.

    ``loose`` ignores details of the reason; the first program, which is not reduced yet, may differ
    in them. ``fake`` executes programs on fake tensors. ``raises`` allows an exception at the end.
    ``times`` is the minimum number of findings. ``own`` are names that the user's file defines, and
    that reduced programs may rename.
    """

    signature: FindingSignature
    check: ScriptCheck
    own: frozenset[str] = frozenset()
    loose: bool = False
    fake: bool = False
    raises: bool = True
    times: int = 1


@dataclass(frozen=True)
class ShownFinding:
    """The finding that a program showed, and whether the program raises an exception."""

    signature: FindingSignature
    raises: bool


def judge_program(program: str, requirement: Requirement) -> tuple[Verdict, ShownFinding | None]:
    """Execute a program in this process and decide whether it shows the required finding.

    Return also the finding it showed, or None. Exceptions of the program do not propagate. The
    process must not be reused afterwards.
    """
    try:
        text = assemble_check(program, requirement.check)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, PATH, "exec")
    except (SyntaxError, ValueError, RecursionError, IndexError) as error:
        return Verdict(False, f"no Python: {error}"), None
    linecache.cache[PATH] = (len(text), None, text.splitlines(keepends=True), PATH)
    recording, status = _record_execution(code, requirement.fake)
    source = SourceText(PATH, text)
    own = requirement.own | own_names(program)
    failure = recording.failure
    if failure is not None and not requirement.raises:
        return Verdict(False, f"it raises {failure.kind}"), None
    seen: list[str] = []
    left = requirement.times
    for finding in _findings_safely(recording, source):
        signature = FindingSignature.from_finding(finding)
        alike = signature.is_similar_to if requirement.loose else signature.is_equal_to
        if alike(requirement.signature, own):
            left -= 1
            if left > 0:
                continue
            if status == 1:
                return Verdict(True), ShownFinding(signature, failure is not None)
            return Verdict(False, f"the check of the script exits with status {status}"), None
        seen.append(finding.code)
    return Verdict(False, ", ".join(dict.fromkeys(seen)) or "no finding occurred"), None


def _findings_safely(recording: Recording, source: SourceText) -> Iterator[Finding]:
    try:
        yield from findings_of(recording, source)
    except Exception:  # a program may break the code that describes its findings
        return


def _record_execution(code: CodeType, fake: bool) -> tuple[Recording, Any]:
    """Execute compiled code; return the recording of Dynamo's trace and the script's exit status.

    ``fake`` executes it on fake tensors.
    """
    drive.install_hooks()
    rng.seed_generators()
    dynamo.counters.clear()
    status: Any = None
    namespace: dict[str, Any] = {
        "__name__": "__main__",
        "__file__": script_path(),
        "__loader__": SourceFileLoader("__main__", script_path()),  # Dynamo reads globals, too
    }
    watch = recorder.Recorder(_execute_code.__code__)
    gc.disable()  # the process ends soon
    with tracing.tensor_mode(fake), watch.listen() as recording:
        try:
            _execute_code(code, namespace)
        except SystemExit as leaving:
            status = int(leaving.code) if isinstance(leaving.code, (bool, int)) else leaving.code
            recording.failure = _describe_failure(leaving.__context__)
        except BaseException as error:
            recording.failure = _describe_failure(error)
    return recording, status


def _describe_failure(error: BaseException | None) -> Failure | None:
    if error is None:
        return None
    try:
        return drive.failure_of(error)
    except Exception:  # the exception itself raises when it is described
        return None


def _execute_code(code: CodeType, namespace: dict[str, Any]) -> None:
    exec(code, namespace)
