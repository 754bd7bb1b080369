"""Findings for functions that Dynamo compiled again because a guard of an earlier compilation
failed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from ..protocol import Finding, Position, Range, Related
from ..protocol.evidence import GuardFailure, GuardFrame, RecompileEvidence
from ..protocol.guards import GuardName
from ..protocol.sources import condition_in_user_words, in_user_words
from ..tracing.recording import FailedGuard, GuardFamily, Recompile, Recording
from .guard_names import CompiledFunction, GuardNames
from .places import FindingPlace, SourceText, finding_identity, related_to

_STACK = "L['___stack"
"""Beginning of Dynamo's names for values on Python's stack when a graph break happens."""

_ANOTHER_BACKEND = "BACKEND_MATCH failure"
"""Part of Dynamo's message if a function is compiled again with another backend object."""

MOST = 8
"""Maximum number of findings for one recompile; each also mentions the other failed guards."""

GUIDE = "https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html"


def recompile_findings(
    recording: Recording, source: SourceText, fallback: Range
) -> Iterator[Finding]:
    """Yield a finding for each failed guard of a trace's recompiles, once per failure.

    Guards of one type at one source range share the finding of the first, because a call of a
    library layer has a guard for each of its weights. ``fallback`` is the range if no frame is in
    the file.
    """
    names = GuardNames(source)
    for recompile in recording.recompiles:
        noted = filter(_is_of_note, latest_failures(recompile))
        yield from _guard_findings(noted, recompile, names, fallback)


def findings_of_recompile(
    recompile: Recompile, names: GuardNames, fallback: Range
) -> Iterator[Finding]:
    """Yield findings for a recompile in a user's program: at least one, even if no failed guard
    deserves a finding.

    ``names`` gives findings about one value the same identity. ``fallback`` is the range if no
    frame is in the file.
    """
    latest = latest_failures(recompile)
    noted = list(filter(_is_of_note, latest)) or list(latest)
    yield from _guard_findings(noted, recompile, names, fallback)


def _guard_findings(
    guards: Iterable[FailedGuard], recompile: Recompile, names: GuardNames, fallback: Range
) -> Iterator[Finding]:
    """Yield a finding for each failed guard of a recompile, and one if Dynamo reached its recompile
    limit."""
    source = names.source
    found: dict[tuple[str, Range], Finding] = {}
    for failed in itertools.islice(guards, MOST):
        finding = guard_finding(failed, recompile, names, fallback)
        found.setdefault((finding.code, finding.range), finding)
    yield from found.values()
    if recompile.limit:
        yield limit_finding(recompile, source, fallback)


def _is_of_note(failed: FailedGuard) -> bool:
    """Whether a failed guard is worth a finding, because the user can act on it at its source line.

    Guards on values that a graph break left on Python's stack follow from the break, whose finding
    reports them. Guards on ``requires_grad`` differ between the first layer and the rest in every
    model.
    """
    return not failed.source.startswith(_STACK) and failed.detail != "requires_grad"


def latest_failures(recompile: Recompile) -> tuple[FailedGuard, ...]:
    """Return the failed guards of the most recent of several compilations, which was made for
    values most like the new ones."""
    failures = recompile.failures
    if failures:
        return tuple(one for one in failures if one.compiled == failures[0].compiled)
    # Without a failed guard, Dynamo reports an unexpected recompilation.
    reasons = [one for one in recompile.reasons if "Unexpected recompilation" not in one][:1]
    return tuple(FailedGuard("", "other", "", "", _first_line(reason)) for reason in reasons)


def guard_finding(
    failed: FailedGuard, recompile: Recompile, names: GuardNames, fallback: Range
) -> Finding:
    """Return the finding ``recompile/<family>`` for one failed guard that caused a recompile.

    Other guards that failed with it are reported as related source ranges. ``fallback`` is the
    range of the finding if no frame of the stacks is in the analyzed file.
    """
    source = names.source
    place = place_of(failed, recompile, source, fallback)
    code, name = f"recompile/{failed.family}", guarded_value_name(failed)
    others = [one for one in recompile.failures if guarded_value_name(one) != name]
    compiled = CompiledFunction(recompile.path, recompile.function)
    return Finding(
        code=code,
        message=f"`{recompile.function}` was recompiled: {describe_change(failed)}",
        range=place.range,
        explanation=_REASONS[failed.family],
        hints=_WAYS_OUT[failed.family],
        context=failed.expression.replace("FakeTensor", "Tensor"),
        href=GUIDE,
        stack=place.stack,
        related=(*related_guards(others, source), *related_to(place)),
        identity=names.identity(code, place, failed.stack, compiled, name),
        evidence=_recompile_evidence(recompile, detail=failed.detail, reasons=recompile.reasons),
        names=(GuardName(name, describe_change(failed), recompile.function),),
    )


def limit_finding(recompile: Recompile, source: SourceText, fallback: Range) -> Finding:
    """Return the finding ``recompile/limit``: Dynamo no longer compiles a function.

    Dynamo then runs the function in eager mode, or raises, as under ``fullgraph=True``. The hint
    names the reached limit, a setting of ``torch._dynamo.config``.
    """
    place = source.locate(recompile.stack, fallback)
    where = place.range
    if recompile.path == source.path:
        where = source.header(recompile.line)
    code = "recompile/limit"
    limit = recompile.limit.partition(" ")[0]
    always = ", ".join(
        dict.fromkeys(f"`{guarded_value_name(one)}`" for one in latest_failures(recompile))
    )
    return Finding(
        code=code,
        message=_limit_words(recompile),
        range=where,
        explanation=f"Values that changed before the last recompile: {always}." if always else "",
        hints=(
            "Keep values that change between calls in a tensor, or outside the compiled code.",
            f"If you need more compiled versions, increase `torch._dynamo.config.{limit}`.",
        ),
        context="\n".join(_first_line(reason) for reason in recompile.reasons),
        href=GUIDE,
        stack=place.stack,
        related=(*related_guards(latest_failures(recompile), source), *related_to(place)),
        identity=f"{finding_identity(code, where)} {recompile.function}",
        evidence=_recompile_evidence(recompile, limit=recompile.limit),
    )


def _limit_words(recompile: Recompile) -> str:
    if not recompile.raised:
        limit = _limit_name(recompile.limit)
        return f"`{recompile.function}` hit {limit}: runs uncompiled from now on"
    changed = "".join(f": {describe_change(one)}" for one in latest_failures(recompile)[:1])
    return (
        f"`{recompile.function}` hit {_limit_name(recompile.limit)} and raises under "
        f"`{recompile.raised}`{changed}"
    )


def _limit_name(limit: str) -> str:
    """Return ``recompile_limit (8)`` for ``recompile_limit = 8``."""
    name, _, number = limit.partition(" = ")
    return f"`{name}` ({number})" if number else f"`{name}`"


def place_of(
    failed: FailedGuard, recompile: Recompile, source: SourceText, fallback: Range
) -> FindingPlace:
    """Return where to show a failed guard: at the guarded value, else at the call, else at the
    function.

    If all three are outside of the file, return the place of ``fallback``.
    """
    if any(frame.path == source.path for frame in failed.stack):
        return source.locate(failed.stack, fallback)
    if recompile.path == source.path:
        place = source.locate((), source.header(recompile.line))
        return FindingPlace(place.range, failed.stack or place.stack, failed.stack, ())
    return source.locate(recompile.stack, fallback)


def related_guards(guards: Sequence[FailedGuard], source: SourceText) -> Iterator[Related]:
    """Yield locations of other guards that failed in the same recompile, each source range once."""
    reported: set[tuple[str, str]] = set()
    for failed in guards:
        name = guarded_value_name(failed)
        if not failed.stack or (name, failed.compiled) in reported or len(reported) >= MOST:
            continue
        reported.add((name, failed.compiled))
        frame = next((f for f in reversed(failed.stack) if f.path == source.path), failed.stack[-1])
        where = source.range_of(frame) if frame.path == source.path else _line_range(frame.line)
        yield Related(frame.path, where, f"this guard failed too: {describe_change(failed)}")


def _recompile_evidence(
    recompile: Recompile, *, detail: str = "", reasons: tuple[str, ...] = (), limit: str = ""
) -> RecompileEvidence:
    guards = tuple(map(guard_evidence, recompile.failures))
    place = recompile.function, recompile.path, recompile.line
    return RecompileEvidence(*place, guards, detail, reasons, limit)


def guard_evidence(failed: FailedGuard) -> GuardFailure:
    """Return a failed guard in the form that findings contain, with a clause on how its value
    changed."""
    return GuardFailure(
        failed.compiled,
        failed.kind,
        failed.source,
        failed.expression,
        describe_change(failed),
        failed.was,
        failed.now,
        tuple(GuardFrame(frame.path, frame.line, frame.function) for frame in failed.stack),
    )


# -- wording ----------------------------------------------------------------------------------


def guarded_value_name(failed: FailedGuard) -> str:
    """Return the user's name of the value that a failed guard checks, such as ``x.shape[0]``."""
    owner = in_user_words(failed.source) if failed.source else ""
    if _ANOTHER_BACKEND in failed.expression:
        return "backend"
    if failed.kind == "TENSOR_MATCH" and failed.detail:
        part, _, axis = failed.detail.partition(" ")
        match part:
            case "size":
                return f"{owner}.shape[{axis}]"
            case "stride":
                return f"{owner}.stride({axis})"
            case "dim":
                return f"{owner}.dim()"
            case "keys":
                return owner
        return f"{owner}.{part}"
    if failed.kind == "GLOBAL_STATE":
        return failed.detail.replace("_", " ") or "global state of torch"
    if failed.kind == "DEFAULT_DEVICE":
        return "default device"
    if failed.kind == "TORCH_FUNCTION_MODE_STACK":
        return "torch function modes"
    if failed.kind in ("LENGTH_CHECK", "DICT_LENGTH", "TUPLE_ITERATOR_LEN"):
        return f"len({owner})"
    return owner or user_condition(failed.expression)


def describe_change(failed: FailedGuard) -> str:
    """Return a clause on how the value of a failed guard changed, such as that it was 4 and is now
    6."""
    name = guarded_value_name(failed)
    if _ANOTHER_BACKEND in failed.expression:
        return "`torch.compile` was called with a different backend object"
    if failed.source.startswith(_STACK):
        values = f": {failed.was}, now {failed.now}" if failed.was and failed.now else ""
        return f"the call that breaks the graph before this line returns a different value{values}"
    if failed.was and failed.now:
        return f"`{name}` was {failed.was}, now {failed.now.replace('FakeTensor', 'Tensor')}"
    match failed.kind:
        case "GLOBAL_STATE" | "DEFAULT_DEVICE" | "TORCH_FUNCTION_MODE_STACK":
            return f"{name} changed"
        case "ID_MATCH":
            return f"`{name}` is a different object"
        case "MAPPING_KEYS_MATCH":
            return f"`{name}` has different keys" + (f": {failed.now}" if failed.now else "")
        case "MISSING":
            return f"`{name}` is missing"
        case "DELETED":
            return f"an object that the code was compiled for was deleted: {failed.expression}"
        case "TENSOR_MATCH":
            return f"the properties of the tensor `{name}` changed"
    return f"`{user_condition(failed.expression)}` is no longer true"


def user_condition(expression: str) -> str:
    """Return a guard's condition in the user's words, such as ``x.shape[0] == 4``, cut to 120
    characters."""
    words = condition_in_user_words(expression)
    return words if len(words) <= 120 else words[:117] + "…"


def _first_line(words: str) -> str:
    return re.sub(r"\s{2,}#.*", "", words.split("\n")[0])


def _line_range(number: int) -> Range:
    return Range(Position(number, 0), Position(number, 0))


_REASONS: dict[GuardFamily, str] = {
    "size": "The code was compiled for one size. At the second size Dynamo makes the dimension "
    "dynamic, unless the code needs the size as a number.",
    "tensor": "The code was compiled for tensors with the earlier properties.",
    "value": "The earlier value became a constant of the compiled code.",
    "type": "The code was compiled for a value of the earlier type.",
    "identity": "The code was compiled for exactly the earlier object.",
    "structure": "The code was compiled for exactly the earlier entries.",
    "mode": "The code was compiled for the earlier mode, for example with gradients enabled.",
    "other": "A guard of the compiled code failed.",
}
_WAYS_OUT: dict[GuardFamily, tuple[str, ...]] = {
    "size": (
        "Call `torch._dynamo.mark_dynamic(tensor, dim)` before the first call, or pad to a few "
        "fixed sizes.",
    ),
    "tensor": (
        "Before the compiled call, convert inputs to one dtype and layout: `.to(dtype)`, "
        "`.contiguous()`.",
    ),
    "value": ("Keep values that change between calls in a tensor, or outside the compiled code.",),
    "type": ("Pass the same kinds of values on every call, such as an empty tensor for `None`.",),
    "identity": ("Pass the same object in each call.",),
    "structure": ("Stack the entries into one tensor, or keep their number fixed.",),
    "mode": ("Do not switch the mode between calls, or compile the code once per mode.",),
    "other": (),
}
