"""Findings about AOTAutograd and Inductor, such as errors and operators without a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .. import texts
from ..protocol import Finding, Range
from ..protocol.evidence import BackendEvidence
from ..protocol.sources import in_user_words
from ..torch_internals.compilers import MissingCompiler
from ..tracing.compilation import ChangedInput, CompilationRecord, CompilerError, OperatorFallback
from ..tracing.recording import Failure
from ..tracing.repetition import RepeatedBlock
from .places import FindingPlace, SourceText, finding_identity, related_to

_HREF = "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html"
_MOST_OPERATORS = 3
"""Maximum number of operators that a message names."""

_DONATED = "donated buffer"
_DOUBLE_BACKWARD = "does not currently support double backward"

_ERROR_HINTS = (
    (
        _DOUBLE_BACKWARD,
        "Compute the first gradient inside the compiled function with `torch.func.grad`, or move "
        "the part that is differentiated twice out of `torch.compile`.",
    ),
    (
        "fake impl",
        "Register a fake kernel for the operator with `torch.library.register_fake`.",
    ),
    (
        "data-dependent",
        "The size depends on data. State what is known about the size with `torch._check` before "
        "this line, or compute with a fixed size and a mask.",
    ),
    (
        "no autograd formula",
        "Register a backward formula with `torch.library.register_autograd`.",
    ),
    (
        "not implemented for 'Float8",
        "Before this line, convert the tensor to a dtype that the operator supports: "
        "`x.to(torch.bfloat16)`.",
    ),
)
"""Parts of compiler errors, each with a hint for the user."""

_USUAL_ERROR_HINT = (
    "Put this code into a function with `@torch.compiler.disable`, and report the error to PyTorch "
    "with the script that `fullgraph repro` makes."
)


def compilation_findings(
    record: CompilationRecord, source: SourceText, fallback: Range
) -> Iterator[Finding]:
    """Yield findings about compiled graphs.

    Calls of operators without an Inductor kernel share one finding if they have the same range.
    ``fallback`` is the range if no line of the file is responsible.
    """
    for error in record.errors:
        yield _error_finding(error, source, fallback)
    by_place: dict[Range, list[tuple[FindingPlace, OperatorFallback]]] = {}
    for call in record.fallbacks:
        if call.stack:
            place = source.locate(call.stack, fallback)
            by_place.setdefault(place.range, []).append((place, call))
    for calls in by_place.values():
        yield _fallback_finding(calls[0][0], [call for _, call in calls])
    for one in record.changed:
        yield _changed_input_finding(one, source, fallback)
    for block in record.repeated:
        yield _repeated_block_finding(block, source, fallback)


def runtime_finding(failure: Failure, source: SourceText, fallback: Range) -> Finding:
    """Return the finding for an exception that compiled code raises when it runs, although the same
    code runs without AOTAutograd.
    """
    place = source.locate(failure.stack, fallback)
    words = f"{failure.kind}: {failure.message.partition(chr(10))[0]}"
    if _DONATED in failure.message:
        if source.innermost(failure.stack) is None:
            place = replace(place, range=_line_naming("retain_graph", source, place.range))
        return _finding(
            "backend/donated-buffer",
            "The compiled backward pass reuses saved memory, so `retain_graph` or `create_graph` "
            "fails here",
            place,
            BackendEvidence("donated-buffer", exception=failure.kind),
            explanation=failure.message,
            hints=(
                "Add the losses and call `backward()` once, or set "
                "`torch._functorch.config.donated_buffer = False` before the code is compiled.",
            ),
        )
    if _DOUBLE_BACKWARD in failure.message and source.innermost(failure.stack) is None:
        place = replace(place, range=_line_naming("create_graph", source, place.range))
    return _finding(
        "backend/error",
        f"The code raises here only if AOTAutograd compiles it: {words}",
        place,
        BackendEvidence("error", "execution", exception=failure.kind),
        explanation=failure.message if "\n" in failure.message else "",
        hints=(_error_hint(failure.message),),
    )


def missing_compiler_finding(missing: MissingCompiler, where: Range) -> Finding:
    """Return the finding that Inductor cannot build kernels on this machine."""
    code = "backend/no-compiler"
    return Finding(
        code=code,
        message=f"This machine does not have {missing.name}, which Inductor needs to build kernels "
        f"for {missing.device}",
        range=where,
        hints=(f"Install it: {missing.install}.",),
        href="https://docs.pytorch.org/docs/stable/torch.compiler.html",
        identity=f"{code} {missing.name}",
        evidence=BackendEvidence("no-compiler", "Inductor"),
    )


def incomplete_finding(reason: str, target: str, where: Range) -> Finding:
    """Return the finding that a target was not compiled completely; ``reason`` is a sentence."""
    code = "backend/incomplete"
    return Finding(
        code=code,
        message=f"AOTAutograd and Inductor did not finish compiling `{target}`: {reason}",
        range=where,
        identity=finding_identity(code, where),
        evidence=BackendEvidence("incomplete"),
    )


def _finding(
    code: str,
    message: str,
    place: FindingPlace,
    evidence: BackendEvidence,
    *,
    explanation: str = "",
    hints: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        code=code,
        message=message,
        range=place.range,
        explanation=explanation,
        hints=hints,
        href=_HREF,
        stack=place.stack,
        related=related_to(place),
        identity=finding_identity(code, place.range),
        evidence=evidence,
    )


def _error_finding(error: CompilerError, source: SourceText, fallback: Range) -> Finding:
    place = source.locate(error.stack, fallback)
    first = texts.shorten_line(error.message.partition("\n")[0].strip(), 300)
    # Inductor's wrappers repeat the type of the original error.
    original = first.removeprefix("LoweringException: ")
    is_wrapper = error.kind in ("InductorError", "LoweringException") and ": " in original
    words = original if is_wrapper else f"{error.kind}: {first}".removesuffix(": ")
    where = " in the backward pass" if error.backward else ""
    message = f"{error.stage} cannot compile this code{where}: {words}"
    if error.stage == "execution":
        message = f"The compiled code raises here{where}, but uncompiled code does not: {words}"
    made = _finding(
        "backend/error",
        message,
        place,
        BackendEvidence("error", error.stage, exception=error.kind, backward=error.backward),
        explanation=error.message if "\n" in error.message else "",
        hints=(_error_hint(error.message),),
    )
    return replace(made, identity=f"{made.identity} {error.kind}")


def _error_hint(message: str) -> str:
    return next((hint for part, hint in _ERROR_HINTS if part in message), _USUAL_ERROR_HINT)


def _fallback_finding(place: FindingPlace, calls: list[OperatorFallback]) -> Finding:
    names = tuple(dict.fromkeys(call.operator for call in calls))
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_OPERATORS])
    if len(names) > _MOST_OPERATORS:
        shown += f" and {len(names) - _MOST_OPERATORS} more"
    where = " in the backward pass" if all(call.backward for call in calls) else ""
    dtypes = {dtype for call in calls for dtype in call.dtypes}
    if any(dtype.startswith("complex") for dtype in dtypes):
        reason = "Inductor does not generate code for complex numbers"
        hint = (
            "If this code is slow, compute with `torch.view_as_real` or with separate real and "
            "imaginary parts."
        )
    elif any(dtype.startswith("float8") for dtype in dtypes):
        reason = "Inductor does not generate code for this dtype on this device"
        hint = "Convert the tensors to `torch.bfloat16` before the computation."
    else:
        reason = "Inductor does not generate code for this operator"
        hint = "If this code is slow, replace the operator with operators that Inductor can fuse."
    made = _finding(
        "backend/fallback",
        f"Inductor calls PyTorch's own kernel{where} for {shown}",
        place,
        BackendEvidence("fallback", "Inductor", operators=names, backward=bool(where)),
        explanation=(
            f"{reason}, and does not fuse the call with the operations before and after it."
        ),
        hints=(hint,),
    )
    return replace(made, identity=f"{made.identity} {names[0]}")


def _changed_input_finding(one: ChangedInput, source: SourceText, fallback: Range) -> Finding:
    place = source.locate(one.stack, fallback)
    name = in_user_words(one.name) if one.name else ""
    subject = f"Input `{name}`" if name else "An input"
    if one.copied:
        message = (
            f"{subject} requires gradients and is changed in place, so each call copies the new "
            "value back"
        )
        hint = "Compute a new tensor instead, such as `y = x * 2` for `x.mul_(2)`."
    else:
        message = (
            f'{subject} is changed in place, so mode="reduce-overhead" does not use CUDA graphs'
        )
        hint = (
            "Return a new tensor, or register the tensor as a buffer of the module. The memory of "
            "a buffer does not move between calls."
        )
    made = _finding(
        "backend/mutated-input",
        message,
        place,
        BackendEvidence("mutated-input", "AOTAutograd"),
        hints=(hint,),
    )
    return replace(made, identity=f"{made.identity} {one.name}")


def _repeated_block_finding(block: RepeatedBlock, source: SourceText, fallback: Range) -> Finding:
    place = source.locate(block.stack, fallback)
    name = f"`{block.class_name}`"
    each = "call its method `compile()`"
    if block.container:
        each = f"`for block in model.{block.container}: block.compile()`"
    forms = (
        "with the same operations each time"
        if block.forms == 1
        else f"with only {block.forms} different sets of operations"
    )
    made = _finding(
        "backend/repeated-block",
        f"{name} is compiled {block.count} times here, {forms}",
        place,
        BackendEvidence("repeated-block", class_name=block.class_name, container=block.container),
        explanation=f"{block.operators} of the {block.all_operators} operators in the graph come "
        f"from {block.count} objects of {name}. Dynamo traces each object, and AOTAutograd and "
        "Inductor compile each object.",
        hints=(
            f"For the fastest compilation, compile each {name} and not the whole model: {each}.",
            "Or keep the model in one graph, and write `@torch.compiler.nested_compile_region` "
            f"above `{block.class_name}.forward`.",
        ),
    )
    return replace(made, identity=f"{made.identity} {block.class_name}")


def _line_naming(word: str, source: SourceText, fallback: Range) -> Range:
    """Return the range of the first line of the file that contains ``word``; ``fallback`` if there
    is none.
    """
    line = source.line_with(word)
    return line if word in source.text_of(line) else fallback


def unique_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield each finding once, although inference and training may both report it."""
    seen: set[str] = set()
    for one in findings:
        if one.identity not in seen:
            seen.add(one.identity)
            yield one
