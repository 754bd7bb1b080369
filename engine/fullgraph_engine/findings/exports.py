"""Findings about ``torch.export`` of a target: code that it rejects, and sizes that may vary if it
succeeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..exporting import CheckedOperator, ExportRefusal, ExportResult
from ..protocol import Finding, Range
from ..protocol.evidence import ExportEvidence, OperatorCall
from ..protocol.sources import in_user_words
from ..tracing import stacks
from ..tracing.recording import Failure
from .places import SourceText, finding_identity, related_to

_HREF = "https://docs.pytorch.org/docs/stable/export.html"


def export_findings(
    made: ExportResult, checked: Iterable[CheckedOperator], source: SourceText, fallback: Range
) -> Iterator[Finding]:
    """Yield findings for a target's export: rejected code, the failure of the export, and custom
    operators that ``opcheck`` rejects.

    ``made`` is the result of the export, and ``checked`` has the results of ``opcheck``.
    ``fallback`` is the range if no line of the file is responsible.
    """
    calls = {one.operator: one.calls for one in checked}
    for refusal in made.refusals:
        yield _refusal_finding(refusal, calls.get(refusal.problem.operator, ()), source, fallback)
    for one in checked:
        if one.wrong and not any(each.problem.operator == one.operator for each in made.refusals):
            yield _operator_finding(one, source, fallback)
    if made.failure is not None:
        yield _failure_finding("failed", "torch.export fails here", made.failure, source, fallback)
    if made.strict is not None:
        words = "torch.export fails here with `strict=True`, but not with `strict=False`"
        yield _failure_finding("strict", words, made.strict, source, fallback)
    if made.shapes:
        code = "export/dynamic-shapes"
        yield Finding(
            code=code,
            message=f"torch.export treats these sizes as dynamic: dynamic_shapes={made.shapes}",
            range=fallback,
            href=_HREF,
            identity=finding_identity(code, fallback),
            evidence=ExportEvidence("dynamic-shapes", shapes=made.shapes),
        )


def _operator_finding(one: CheckedOperator, source: SourceText, fallback: Range) -> Finding:
    code = "export/opcheck"
    first, _, rest = one.wrong.partition("\n")
    return Finding(
        code=code,
        message=f"torch.library.opcheck fails for torch.ops.{one.operator}: {first}",
        range=source.header(one.line) if one.line >= 0 else fallback,
        explanation=rest.strip(),
        href="https://docs.pytorch.org/docs/stable/library.html#torch.library.opcheck",
        identity=f"{code} {one.operator}",
        evidence=ExportEvidence("opcheck", operator=one.operator, calls=one.calls),
    )


def _refusal_finding(
    refusal: ExportRefusal, calls: tuple[OperatorCall, ...], source: SourceText, fallback: Range
) -> Finding:
    problem = refusal.problem
    place = source.locate(stacks.join_stacks((), problem.stack), fallback)
    if source.innermost(place.stack) is not None:
        # The stack frames of this rejection lack columns.
        place = replace(place, range=source.value_on(place.range.start.line))
    code = f"export/{problem.kind}"
    words = refusal.words or source.text_of(place.range) or problem.expression
    hints: tuple[str, ...] = ()
    # The size is named as in the most deeply nested function, which may be in a library.
    check = refusal.check if problem.stack and problem.stack[-1].path == source.path else ""
    if problem.kind == "data-dependent":
        message = f"torch.export cannot evaluate `{words}`, which depends on data"
        hints = ("Express both branches with `torch.cond` or `torch.where`.",)
        if check:
            hints = (
                f"If this condition is always true, write `torch._check({check})` before this "
                "line.",
                *hints,
            )
    elif problem.kind == "constraint":
        sizes = ", ".join(f"`{name}`" for name in _size_words(refusal)) or "a dynamic size"
        message = f"torch.export cannot keep {sizes} dynamic: the code requires `{words}`"
        check = refusal.words
        hints = (
            "Write `Dim.AUTO` or the number in `dynamic_shapes`, or change this line so that it "
            "does not require the condition.",
        )
    elif problem.kind == "missing-fake-kernel":
        message = f"torch.ops.{problem.operator} has no fake kernel, which torch.export needs"
        hints = ("Register a fake kernel with `torch.library.register_fake`.",)
    else:
        message = (
            f"The fake kernel of torch.ops.{problem.operator} disagrees with the real kernel: "
            f"{problem.reason}"
        )
        hints = ("Correct the function that is registered with `torch.library.register_fake`.",)
    return Finding(
        code=code,
        message=message,
        range=place.range,
        hints=hints,
        href=_HREF,
        stack=place.stack,
        related=related_to(place),
        identity=f"{finding_identity(code, place.range)} {problem.expression or problem.operator}",
        evidence=ExportEvidence(
            problem.kind, problem.expression, check, problem.operator, calls=calls
        ),
    )


def _size_words(refusal: ExportRefusal) -> list[str]:
    return [in_user_words(source) for _, source in refusal.problem.sources]


def _failure_finding(
    name: str, words: str, failure: Failure, source: SourceText, fallback: Range
) -> Finding:
    place = source.locate(failure.stack, fallback)
    first, _, rest = failure.message.partition("\n")
    code = f"export/{name}"
    return Finding(
        code=code,
        message=f"{words}: {failure.kind}: {first}" if first else f"{words}: {failure.kind}",
        range=place.range,
        explanation=rest.strip(),
        href=_HREF,
        stack=place.stack,
        related=related_to(place),
        identity=finding_identity(code, place.range),
        evidence=ExportEvidence("strict" if name == "strict" else "failed"),
    )
