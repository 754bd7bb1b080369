"""Compile the graphs of a target with AOTAutograd and Inductor, for training and for inference."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .. import devices, tracing
from ..protocol import Finding, Range
from ..protocol.compilation import Compilation, CompilerCheck, RegionCompilation
from ..targets import Call, Tracee
from ..torch_internals import backends, dynamo
from ..torch_internals.compilers import find_missing_compilers
from ..tracing.compilation import (
    CompilationRecord,
    CompilerError,
    GraphCompiler,
    differentiate,
)
from ..tracing.drive import compile_graphs_with
from ..tracing.recording import Failure, Recording
from . import compilation
from .failures import failure_words
from .places import SourceText

_OUT_OF_MEMORY = "Memory ran out while AOTAutograd and Inductor compiled the graphs."
_NEEDS_KERNELS = "The graph needs kernels that Inductor builds, and cannot run without them"
_NEEDS_GPU = (
    "Inductor compiles code for CUDA only if it finds a GPU, but fullgraph hides GPUs from the "
    "traced code."
)


@dataclass
class CompiledTarget:
    """The result of compiling a target: its findings, and the outcome with compile times."""

    result: Compilation
    findings: list[Finding] = field(default_factory=list)


class TargetCompiler:
    """A compiler of the graphs of one target (function or module). Create at most one per process.

    ``compiler`` says whether only AOTAutograd or also Inductor compiles the graphs. ``restart``
    resets the fake tensor mode before the call is built again.
    """

    def __init__(
        self,
        tracee: Tracee,
        source: SourceText,
        compiler: CompilerCheck,
        restart: Callable[[], None],
    ) -> None:
        self._tracee, self._source, self._compiler = tracee, source, compiler
        self._restart = restart
        self._range: Range = tracee.target.range
        backends.compile_in_this_process(backends.scratch_folder())
        self._graphs = GraphCompiler(inductor=compiler == "inductor")
        self._trained = False
        self._reasons: list[str] = []
        self._failed = False

    def run(self, call: Call) -> CompiledTarget:
        """Compile the graphs of a call, with a backward pass if its result requires gradients.
        Then, after a backward pass, compile them again without gradients.

        The call without gradients is built again, because a call may change its inputs.
        """
        found: list[Finding] = []
        if self._compiler == "inductor":
            kinds = tracing.device_types([call.function, call.args, call.kwargs])
            for missing in find_missing_compilers(kinds):
                found.append(compilation.missing_compiler_finding(missing, self._range))
        started = time.process_time()
        regions = self._compile_call(call, contextlib.nullcontext, found)
        seconds = round(time.process_time() - started, 4)
        if self._trained:
            self._compile_call(self._rebuild_call(), torch.no_grad, found)
        result = Compilation(self._compiler, "compiled", regions, processor_seconds=seconds)
        if self._reasons:
            reason = self._reasons[0]
            result = replace(result, status="not-computed", reason=reason)
            name = self._tracee.target.name
            found.append(compilation.incomplete_finding(reason, name, self._range))
        elif self._failed:
            result = replace(result, status="failed")
        return CompiledTarget(result, list(compilation.unique_findings(found)))

    def _rebuild_call(self) -> Call:
        self._restart()
        dynamo.reset()
        return self._tracee.call()

    def _compile_call(
        self, call: Call, gradients: Callable[[], AbstractContextManager[Any]], found: list[Finding]
    ) -> tuple[RegionCompilation, ...]:
        """Make a call with its graphs compiled, inside the context that ``gradients`` returns.

        Return the compile times, and append findings to ``found``.
        """
        with compile_graphs_with(self._graphs):
            recording = self._trace_call(call, gradients)
        record = CompilationRecord.join(self._graphs.take_records(recording, self._source.path))
        executed = any(error.stage == "execution" for error in record.errors)
        failed = recording.failure is not None
        failed_eagerly = executed and failed and self._fails_eagerly(gradients)
        errors = [
            error
            for error in record.errors
            if not self._explains_missing(error)
            and not (error.stage == "execution" and failed_eagerly)
        ]
        record = replace(record, errors=tuple(errors))
        found += compilation.compilation_findings(record, self._source, self._range)
        self._failed |= bool(errors)
        if recording.failure is not None and not errors:
            found += self._explain_failure(recording.failure, gradients)
        return record.regions

    def _explain_failure(
        self, failure: Failure, gradients: Callable[[], AbstractContextManager[Any]]
    ) -> Iterator[Finding]:
        """Yield a finding if the compiled code caused an exception of the call. If it did not,
        record the exception as the reason why the compilation is incomplete.
        """
        plain = self._trace_call(self._rebuild_call(), gradients)
        if failure.phase == "eager" and plain.failure is None:
            self._failed = True
            yield compilation.runtime_finding(failure, self._source, self._range)
        elif devices.is_missing_gpu_error(failure.message):
            self._reasons.append(_NEEDS_GPU)
        elif plain.failure is None or gradients is contextlib.nullcontext:
            self._reasons.append(f"The call raised {failure_words(failure)}.")
        # Otherwise only the call under no_grad raised: code such as a training step needs
        # gradients.

    def _trace_call(
        self, call: Call, gradients: Callable[[], AbstractContextManager[Any]]
    ) -> Recording:
        @contextlib.contextmanager
        def enter() -> Iterator[None]:
            with call.context.enter(), gradients():
                yield

        def differentiate_result(result: Any) -> None:
            self._trained |= differentiate(result)

        return tracing.trace(
            call.function,
            call.args,
            call.kwargs,
            dynamic=[(wish.tensor, wish.dim) for wish in call.all_dynamic],
            symbols=[wish.symbol for wish in call.all_dynamic],
            file=self._source.path,
            enter=enter,
            then=call.then,
            on_result=differentiate_result,
        )

    def _fails_eagerly(self, gradients: Callable[[], AbstractContextManager[Any]]) -> bool:
        """Whether the call, or the computation of its gradients, raises without Dynamo."""
        call = self._rebuild_call()
        try:
            with call.context.enter(), gradients():
                result = tracing.call_eagerly(call.function, call.args, call.kwargs)
            differentiate(result)
        except Exception:  # the user's code may raise anything
            return True
        return False

    def _explains_missing(self, error: CompilerError) -> bool:
        """Whether an error only means that this process cannot compile or execute the graph. If so,
        record the reason.
        """
        if error.stage == "execution" and error.kind == "NotImplementedError":
            # PyTorch's kernels support fewer dtypes than the code that Inductor generates.
            first = error.message.partition("\n")[0]
            self._reasons.append(f"{_NEEDS_KERNELS}: {first}.")
        elif error.out_of_memory:
            self._reasons.append(_OUT_OF_MEMORY)
        elif devices.is_missing_gpu_error(error.message):
            self._reasons.append(_NEEDS_GPU)
        elif "PermissionError" in (error.kind, error.message.partition(": ")[0]):
            self._reasons.append(f"fullgraph's sandbox stopped the compiler: {error.message}.")
        else:
            return False
        return True
