"""Find the finding again in a run of the user's code, and write programs that may show it."""

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
from ...targets import NoProbe, Tracee
from ...torch_internals import dynamo
from ..candidate import Candidate, Candidates, in_order
from ..inputs import Store
from ..settings import settings
from ..verify.check import Check
from ..verify.finding_signature import FindingSignature, own_names
from ..verify.observed_findings import findings_of
from . import repeated_calls
from .programs import Programs

_ODDS = 5
"""How often a finding that was not there again is looked for."""


@dataclass(frozen=True)
class Extracted:
    """Candidates, packed; or why there are none, with the next step; or why the run should be
    repeated with real tensors."""

    packed: str = ""
    reason: str = ""
    needs_real: str | None = None


def extract(tracee: Tracee, wanted: Wanted, until: float) -> Extracted:
    """Candidates for a finding of a target; those that are written by ``until``, in
    ``time.monotonic``."""
    try:
        return _extract(tracee, wanted, until)
    except NoProbe as error:
        return Extracted(reason=str(error))


def _extract(tracee: Tracee, wanted: Wanted, until: float) -> Extracted:
    if wanted.backend:
        return _extract_graphs(tracee, wanted)
    path = wanted.path
    if path is not None and path.answers:
        return Extracted(
            reason=f"`{wanted.code}` was found only {path.words}, which is what fullgraph chose "
            "for a fake tensor; give the target a probe whose inputs lead there and try again."
        )
    if path is not None:
        tracee = replace(tracee, alter=partial(alter_call, path=path))
    done = wanted.run.part if wanted.run is not None else "first"
    part: Part = "second" if done == "second" else "first"
    if done == "forecast" or wanted.code == "guard/mutated":
        return _extract_repeated_calls(tracee, wanted, until)

    def look() -> tuple[Finding | None, str | None]:
        dynamo.reset()
        outcome = run_target(tracee, part, _ignored)
        if outcome.report.status == "no-probe":
            raise NoProbe(outcome.report.error or "")
        return _matching(outcome.findings, wanted), outcome.needs_real

    found, needs_real = look()
    if needs_real:
        return Extracted(needs_real=needs_real)
    flaky, runs = "", 1
    if found is None:
        again = [look()[0] for _ in takewhile(lambda _: _monotonic() < until, range(_ODDS))]
        found = next((each for each in again if each is not None), None)
        seen, runs = sum(each is not None for each in again), 1 + len(again)
        flaky = f"It is flaky: of {runs} runs that looked for it again {seen} found it."
    if found is None:
        return Extracted(
            reason=f"`{wanted.code}` was not found again at line {wanted.range.start.line + 1} in "
            f"{runs} runs; save the file, wait for its findings and try again."
        )
    programs = Programs(tracee, found, settings(), stores=_stores(tracee, wanted))
    return _packed(programs, wanted, until, flaky=flaky)


def _extract_repeated_calls(tracee: Tracee, wanted: Wanted, until: float) -> Extracted:
    """Candidates for what is foretold of further calls: these, made for real."""
    with tracing.tensor_mode(tracee.fake):
        calls = repeated_calls.calls_of(wanted, tracee.call())
        recordings = calls.trace() if calls is not None else []
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
        return Extracted(
            reason="The further calls that this is about compile nothing again this time; wait for "
            "new findings and try again."
        )
    found = (near or findings)[0]
    signature, own = FindingSignature.of(found), own_names(tracee.text)
    times = calls_with(signature, own, of_calls)
    programs = Programs(tracee, found, settings(), calls, _stores(tracee, wanted))
    return _packed(programs, wanted, until, title=wanted.message, times=times)


def calls_with(
    signature: FindingSignature, own: frozenset[str], of_calls: Sequence[Sequence[Finding]]
) -> int:
    """How many calls found something alike; one may have found it in several layers."""
    return sum(
        any(FindingSignature.of(each).equals(signature, own) for each in several)
        for several in of_calls
    )


def _stores(tracee: Tracee, wanted: Wanted) -> tuple[Store | None, ...]:
    """Fake tensors have no contents."""
    real = not tracee.fake
    return Store.choices(always=real and wanted.data, if_needed=real)


def _packed(
    programs: Programs,
    wanted: Wanted,
    until: float,
    *,
    flaky: str = "",
    title: str = "",
    times: int = 1,
) -> Extracted:
    found = programs.finding
    written: list[Candidate] = []
    for candidate in programs.candidates():
        written.append(candidate)
        if _monotonic() > until:
            programs.left_out.append("There was no time left to write further programs.")
            break
    return Extracted(
        Candidates(
            in_order(written, data=wanted.data),
            FindingSignature.of(found),
            Check.of(found, times),
            tuple(sorted(own_names(programs.tracee.text))),
            title or found.message,
            found.explanation,
            _place(found, programs.tracee.path),
            found.href,
            flaky,
            tuple(programs.left_out),
            times,
            data=wanted.data,
        ).packed()
    )


def _extract_graphs(tracee: Tracee, wanted: Wanted) -> Extracted:
    if tracee.fake:
        return Extracted(needs_real=f"`{wanted.backend}` compiles for real tensors.")
    from .. import graphs  # what it imports of torch nothing else needs

    found = graphs.extract(tracee, wanted)
    return Extracted(reason=found) if isinstance(found, str) else Extracted(found.packed())


def _ignored(_: Finding) -> None:
    pass


def _matching(findings: list[Finding], wanted: Wanted) -> Finding | None:
    """The finding that is meant: by its range, else by its line, else by its message."""
    alike = [each for each in findings if each.code == wanted.code]
    same = (
        [each for each in alike if each.range == wanted.range],
        [each for each in alike if each.range.start.line == wanted.range.start.line],
        [each for each in alike if each.message == wanted.message],
    )
    return next((each for found in same for each in found), None)


def _place(finding: Finding, path: str) -> str:
    name, line = PurePath(path).name, finding.range.start.line + 1
    inside = next((f.function for f in reversed(finding.stack) if f.path == path), "")
    place = f"{name}:{line}" + (f" in `{inside}`" if inside else "")
    return f"{place}, target `{finding.target}`" if finding.target else place
