"""Look for a finding in a new run of the user's code, and write programs that may show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import PurePath
from time import monotonic as _monotonic

from ... import tracing
from ...findings import run_target
from ...findings.paths import alter_call
from ...findings.places import SourceText
from ...protocol import Finding, Part, Wanted
from ...protocol.evidence import BreakEvidence
from ...targets import NoProbe, Tracee
from ...torch_internals import dynamo
from ..candidate import Candidates, ReproCandidate, sort_candidates
from ..inputs import TensorStore
from ..settings import changed_settings
from ..verify.check import ScriptCheck
from ..verify.finding_signature import FindingSignature, own_names
from ..verify.observed_findings import findings_of
from . import repeated_calls
from .programs import CandidatePrograms

_ODDS = 5
"""Number of additional runs that look for a finding which the first run does not show."""


@dataclass(frozen=True)
class ExtractionOutcome:
    """Serialized programs that may show a finding (``packed``), or the ``reason`` why there are
    none.

    ``needs_real`` is the reason why the run must be repeated with real instead of fake tensors;
    None if fake tensors suffice.
    """

    packed: str = ""
    reason: str = ""
    needs_real: str | None = None


def extract_candidates(tracee: Tracee, wanted: Wanted, until: float) -> ExtractionOutcome:
    """Run the user's code again, and write programs that may show a finding.

    ``tracee`` is the function or module to call, ``wanted`` the finding. ``until`` is the
    ``time.monotonic()`` time by which the programs must be written.
    """
    try:
        return _extract_by_code(tracee, wanted, until)
    except NoProbe as error:
        return ExtractionOutcome(reason=str(error))


def _extract_by_code(tracee: Tracee, wanted: Wanted, until: float) -> ExtractionOutcome:
    if wanted.backend:
        return _extract_graphs(tracee, wanted)
    path = wanted.path
    if path is not None and path.answers:
        return ExtractionOutcome(
            reason=f"`{wanted.code}` was found only {path.words}, which fullgraph assumed for a "
            "fake tensor; write a probe comment with inputs that take this path, and try again."
        )
    if path is not None:
        tracee = replace(tracee, alter=partial(alter_call, path=path))
    done = wanted.run.part if wanted.run is not None else "first"
    part: Part = "second" if done == "second" else "first"
    if done == "forecast" or wanted.code == "guard/mutated":
        return _extract_repeated_calls(tracee, wanted, until)

    def look() -> tuple[Finding | None, str | None]:
        dynamo.reset()
        outcome = run_target(tracee, part, _ignore_finding)
        if outcome.report.status == "no-probe":
            raise NoProbe(outcome.report.error or "")
        return _find_matching(outcome.findings, wanted), outcome.needs_real

    found, needs_real = look()
    if needs_real:
        return ExtractionOutcome(needs_real=needs_real)
    flaky, runs = "", 1
    if found is None:
        again = [look()[0] for _ in takewhile(lambda _: _monotonic() < until, range(_ODDS))]
        found = next((each for each in again if each is not None), None)
        seen, runs = sum(each is not None for each in again), 1 + len(again)
        flaky = f"It is flaky: only {seen} of {runs} runs found it again."
    if found is None:
        return ExtractionOutcome(
            reason=f"`{wanted.code}` was not found again at line {wanted.range.start.line + 1} in "
            f"{runs} runs; save the file, wait for its findings and try again."
        )
    programs = CandidatePrograms(
        tracee, found, changed_settings(), stores=_tensor_stores(tracee, wanted)
    )
    return _pack_candidates(programs, wanted, until, flaky=flaky)


def _extract_repeated_calls(tracee: Tracee, wanted: Wanted, until: float) -> ExtractionOutcome:
    """Write programs that may show a recompile that a forecast has predicted for later calls.

    This function makes the later calls to find the recompile. ``tracee`` is the function or module,
    ``wanted`` the predicted finding, and ``until`` the ``time.monotonic()`` time to stop.
    """
    with tracing.tensor_mode(tracee.fake):
        calls = repeated_calls.repeated_calls_of(wanted, tracee.call())
        recordings = calls.trace_recompiles() if calls is not None else []
    source = SourceText(tracee.path, tracee.text)
    of_calls = [
        [
            finding
            for finding in findings_of(recording, source)
            if finding.code.startswith("recompile/") and finding.code != "recompile/limit"
        ]
        for recording in reversed(recordings)
    ]
    findings = [finding for several in of_calls for finding in several]
    line = wanted.range.start.line
    near = [finding for finding in findings if finding.range.start.line == line]
    if calls is None or not findings:
        return ExtractionOutcome(
            reason="The calls that recompiled did not recompile when fullgraph traced them again; "
            "wait for new findings and try again."
        )
    found = (near or findings)[0]
    signature, own = FindingSignature.from_finding(found), own_names(tracee.text)
    times = count_calls_with(signature, own, of_calls)
    programs = CandidatePrograms(
        tracee, found, changed_settings(), calls, _tensor_stores(tracee, wanted)
    )
    return _pack_candidates(programs, wanted, until, title=wanted.message, times=times)


def count_calls_with(
    signature: FindingSignature, own: frozenset[str], of_calls: Sequence[Sequence[Finding]]
) -> int:
    """Return the number of calls that show a finding with the given signature.

    ``of_calls`` has the findings of each call; ``own`` are names that the user's file defines.
    """
    return sum(
        any(FindingSignature.from_finding(each).is_equal_to(signature, own) for each in several)
        for several in of_calls
    )


def _tensor_stores(tracee: Tracee, wanted: Wanted) -> tuple[TensorStore | None, ...]:
    """Return the stores for tensor contents; each program is written once per store.

    A store is a folder; None stands for programs without contents, as for fake tensors.
    """
    real = not tracee.fake
    return TensorStore.choices(always=real and wanted.data, if_needed=real)


def _pack_candidates(
    programs: CandidatePrograms,
    wanted: Wanted,
    until: float,
    *,
    flaky: str = "",
    title: str = "",
    times: int = 1,
) -> ExtractionOutcome:
    found = programs.finding
    written: list[ReproCandidate] = []
    for candidate in programs.candidates():
        written.append(candidate)
        if _monotonic() > until:
            programs.left_out.append(
                "The time limit was reached before all candidate programs were written."
            )
            break
    return ExtractionOutcome(
        Candidates(
            sort_candidates(written, data=wanted.data),
            FindingSignature.from_finding(found),
            ScriptCheck.for_finding(found, times),
            tuple(sorted(own_names(programs.tracee.text))),
            title or _dynamo_title(found),
            found.explanation,
            _place_text(found, programs.tracee.path),
            found.href,
            flaky,
            tuple(programs.left_out),
            times,
            data=wanted.data,
        ).to_json()
    )


def _extract_graphs(tracee: Tracee, wanted: Wanted) -> ExtractionOutcome:
    if tracee.fake:
        return ExtractionOutcome(needs_real=f"`{wanted.backend}` compiles only real tensors.")
    # Imported here, because only this function needs this module and its imports of torch.
    from .. import graphs

    found = graphs.extract_graphs(tracee, wanted)
    return (
        ExtractionOutcome(reason=found)
        if isinstance(found, str)
        else ExtractionOutcome(found.to_json())
    )


def _ignore_finding(_: Finding) -> None:
    pass


def _find_matching(findings: list[Finding], wanted: Wanted) -> Finding | None:
    """Return the finding that matches ``wanted`` best; None without a match.

    Best is equal code and range, then an equal line, then an equal message.
    """
    alike = [each for each in findings if each.code == wanted.code]
    same = (
        [each for each in alike if each.range == wanted.range],
        [each for each in alike if each.range.start.line == wanted.range.start.line],
        [each for each in alike if each.message == wanted.message],
    )
    return next((each for found in same for each in found), None)


def _place_text(finding: Finding, path: str) -> str:
    name, line = PurePath(path).name, finding.range.start.line + 1
    inside = next((f.function for f in reversed(finding.stack) if f.path == path), "")
    place = f"{name}:{line}" + (f" in `{inside}`" if inside else "")
    return f"{place}, target `{finding.target}`" if finding.target else place


def _dynamo_title(finding: Finding) -> str:
    """Return the message of a finding; for a graph break Dynamo's title, which its developers
    search for."""
    if isinstance(finding.evidence, BreakEvidence):
        return f"Graph break: {finding.evidence.title}"
    return finding.message
