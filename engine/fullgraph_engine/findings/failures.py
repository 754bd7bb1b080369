"""Findings for exceptions and settings that stopped the trace of a target early."""

from __future__ import annotations

from .. import devices
from ..protocol import Finding, Range
from ..protocol.evidence import FailureEvidence
from ..tracing.recording import Failure
from .breaks import notes_on
from .places import SourceText, finding_identity, related_to

RAISES = "trace/eager-error"

# Exception types and message parts with which torch reports that a fake tensor lacks data.
_FAKE_KINDS = (
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "DataPtrAccessError",
)
_FAKE_WORDS = (
    "FakeTensor",
    "fake tensor",
    "not supported for tensor subclasses",
    "data pointer",
    "doesn't have storage",
    "without ATen_cuda",
    "not compiled with CUDA",
    "NVIDIA driver",
)


def loss_finding(loss: str, where: Range) -> Finding:
    """Return the finding that a part of the trace could not be recorded.

    ``loss`` is a sentence that names the part.
    """
    code = "trace/incomplete"
    return Finding(
        code=code,
        message="Findings may be missing, because a part of this trace could not be recorded: "
        f"{loss}",
        range=where,
        identity=f"{finding_identity(code, where)} {loss}",
    )


def disabled_finding(source: SourceText) -> Finding:
    """Return the finding that a setting of the file or the environment disables Dynamo."""
    code = "trace/disabled"
    where = source.line_with("dynamo", ".disable")
    return Finding(
        code=code,
        message="TorchDynamo is disabled, so torch.compile compiles nothing and nothing was traced",
        range=where,
        identity=finding_identity(code, where),
    )


def probe_finding(words: str, where: Range) -> Finding:
    """Return the finding that the example inputs stated at ``where`` do not fit the target.

    ``words`` is a sentence on the reason.
    """
    code = "probe/invalid"
    return Finding(
        code=code, message=words, range=where, identity=f"{finding_identity(code, where)} {words}"
    )


def lacks_fake(failure: Failure) -> bool:
    """Whether an exception says that an operator cannot run on fake tensors, because it lacks a
    fake implementation."""
    return "no fake impl registered" in failure.message


def needs_data(failure: Failure) -> bool:
    """Whether the run failed only because fake tensors lack data, or because the device is
    missing."""
    return failure.kind in _FAKE_KINDS or any(word in failure.message for word in _FAKE_WORDS)


def failure_words(failure: Failure) -> str:
    """Return the type and the first line of the message of an exception that ended a trace."""
    first_line = failure.message.split("\n")[0].strip()
    return f"{failure.kind}: {first_line}" if first_line else failure.kind


def failure_finding(
    failure: Failure, source: SourceText, fallback: Range, *, fake: bool, chosen: int
) -> Finding:
    """Return the finding for an exception that ended a run, at the line of the file that raised it.

    The finding blames Dynamo's tracer only if the call works without Dynamo. ``fake``: the tensors
    were fake. ``chosen`` is the number of values that the engine chose for fake tensors; any of
    them may have caused the exception. ``fallback`` is the range if no line of the file raised.
    """
    place = source.locate(failure.stack, fallback)
    words = failure_words(failure)
    hints = _failure_hints(failure)
    if devices.is_missing_gpu_error(failure.message):
        code = "trace/sandboxed"
        message = f"fullgraph runs code without a GPU, so this line raises an error: {words}"
        hints = ()
    elif fake and (chosen or needs_data(failure)):
        code = "trace/needs-real-tensors"
        message = f"Fake tensors have no data, so the trace ends here: {words}"
        if not needs_data(failure):
            values = "a value" if chosen == 1 else f"{chosen} values"
            message = (
                f"The trace ends here, perhaps because fullgraph chose {values} for fake tensors: "
                f"{words}"
            )
        hints = (
            "Use smaller sizes in the probe or fewer layers in the model, so that fullgraph can "
            'run the code with real tensors. Or set `mode = "real"`.',
        )
    elif failure.phase == "tracer":
        code = "trace/compile-error"
        message = f"torch.compile fails here, but the same code runs without it: {words}"
    else:
        code = RAISES
        message = f"The code raises here, with or without torch.compile: {words}"
    return Finding(
        code=code,
        message=message,
        range=place.range,
        explanation=_failure_explanation(failure),
        hints=hints,
        stack=place.stack,
        related=related_to(place),
        notes=notes_on(failure.causes, failure.operator),
        identity=finding_identity(code, place.range),
        evidence=FailureEvidence(failure.kind, failure.phase, _failure_title(failure)),
    )


def _failure_title(failure: Failure) -> str:
    """Return Dynamo's title of the feature that it does not support, as in graph breaks; empty for
    other exceptions."""
    return failure.causes[0].kind if failure.phase == "tracer" and failure.causes else ""


def _failure_hints(failure: Failure) -> tuple[str, ...]:
    """Return Dynamo's hints on an exception, except the hint to run in eager mode, which the engine
    already did."""
    hints = failure.causes[0].hints if failure.causes else ()
    return tuple(hint for hint in hints if "error when running in eager" not in hint)


def _failure_explanation(failure: Failure) -> str:
    parts = [failure.message] if "\n" in failure.message else []
    if failure.causes:
        first = failure.causes[0]
        parts.append(f"{first.kind}. {first.explanation}" if first.explanation else first.kind)
    return "\n".join(parts)
