"""Execute a program in this process, as ``python FILE`` would, while a recorder observes Dynamo."""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import sys
import time
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import devices, texts, tracing
from ..protocol import ProgramRequest
from ..protocol.comments import arguments_in
from ..protocol.regions import Lack, ProgramEnd
from ..targets import rng
from ..targets.programs import install_main_module, load_in_process
from ..torch_internals import backends, dynamo
from ..torch_internals.exceptions import BREAKS, UserError
from ..torch_internals.regions import CompiledCall
from ..tracing import recorder, stacks
from ..tracing.compilation import CompilationRecord, GraphCompiler
from ..tracing.drive import NoBackend
from ..tracing.recording import Stack
from . import absent_gpu
from .further_calls import RegionArguments, make_further_calls
from .observing import ObservedModules, ProgramValues, when_returned
from .regions import LiveRegion, Regions
from .watching import Attribution, ProgramRecorder, RegionCall

QUIET_CALLS = 8
"""Number of calls of each compiled callable without a new compilation after which a long run is
stopped.
"""

QUIET_SECONDS = 8.0
"""Minimum wall time in seconds of a run before the engine stops it because Dynamo compiles nothing
new.
"""

_ASKS_FOR_GPU = re.compile(r"\bcuda\b|\bGPUs?\b", re.IGNORECASE)

_clock = time.monotonic


@dataclass(frozen=True)
class DynamoWarning:
    """A warning that Dynamo issued while the program ran.

    ``stack`` is the user's stack. ``call`` is the call of a compiled callable in progress, None if
    there was none.
    """

    message: str
    stack: Stack
    call: RegionCall | None = None


@dataclass(frozen=True)
class Ending:
    """The way in which a program's run ended.

    ``line`` is the zero-based line of the program's file that was being executed, -1 if unknown.
    ``error`` is the exception that ended the run; ``status`` is the exit status.
    """

    how: ProgramEnd
    line: int = -1
    error: BaseException | None = None
    status: object = None


class Program(Attribution):
    """One run of a user's program.

    ``stop`` reports the results and ends the process. The run calls it from inside the program when
    further calls would show nothing new. ``bottom`` is the code object of the function that starts
    the user's code, by default the function that executes the program's text.
    """

    def __init__(
        self,
        path: str,
        text: str,
        request: ProgramRequest,
        stop: Callable[[Ending], None],
        lacks: Lack = "",
        bottom: types.CodeType | None = None,
    ) -> None:
        self.path, self.text, self.request, self.lacks = path, text, request, lacks
        bottom = bottom or _run_code.__code__
        self.recorder = ProgramRecorder(bottom=bottom, file=path)
        super().__init__(self.recorder.recording)
        self.regions = Regions(bottom, self)
        self.warnings: list[DynamoWarning] = []
        self.on_new_work: Callable[[], None] = lambda: None
        """Callback after each outermost call of a compiled callable in which Dynamo did something.
        """
        self.values = ProgramValues() if request.further_calls else None
        self._arguments: dict[LiveRegion, RegionArguments] = {}
        self._ended = False
        self._observed_modules = ObservedModules(request.observed_modules, self._add_result)
        self._stop = dynamo.disable(stop)
        self._compiler: Callable[..., Any] | None = None
        self._graph_compiler: GraphCompiler | None = None
        self.compiled: tuple[CompilationRecord, ...] = ()
        """Records of AOTAutograd and Inductor for each graph of the program's own calls."""
        self._began = _clock()

    @property
    def seconds(self) -> float:
        """Return the wall time in seconds since the program began."""
        return _clock() - self._began

    def find_backend(self) -> str:
        """Find the backend that the request names, for use in ``run``.

        Return a sentence on why the backend cannot be used, or an empty string if it can.
        """
        name, compiler = self.request.backend, self.request.compiler
        if compiler != "off" and not (name or self.lacks):
            backends.compile_in_this_process(backends.scratch_folder())
            self._compiler = self._graph_compiler = GraphCompiler(inductor=compiler == "inductor")
            if self.values is not None:
                # The engine runs each backward pass once more to observe gradients, so saved
                # tensors must be kept.
                backends.functorch_config().donated_buffer = False
        if not name or self.lacks:
            return ""
        try:
            self._compiler = backends.find_backend(name)
        except Exception as error:  # the package of a backend may raise anything
            if backends.is_registered(name):
                return f"The backend `{name}` cannot be imported: {texts.type_and_message(error)}."
            listed = "`torch._dynamo.list_backends()` lists the available backends"
            return f"torch has no backend `{name}` ({listed})."
        return ""

    def run(self) -> Ending:
        """Execute the file's source as ``__main__`` until it returns, raises or exits.

        A file in a package is executed as by ``python -m``, other files as by ``python FILE``.
        """
        self.regions.watch()
        NoBackend.calls_user_backend = True
        NoBackend.compiler = self._compiler
        self._watch_warnings()
        module = install_main_module(self.path)
        written = arguments_in(self.text)
        sys.argv = [self.path, *(self.request.arguments if written is None else written)]
        rng.seed_generators()
        self._began = _clock()
        with self.recorder.listen(), load_in_process(), contextlib.ExitStack() as stack:
            if self.lacks == "gpu":
                tracing.want_cuda_for("cuda")
                absent_gpu.install()
            if self.lacks:
                mode = stack.enter_context(tracing.tensor_mode(True))
                if mode is not None:
                    mode.restart()
                    mode.prefer_real = False
            try:
                code = compile(self.text, self.path, "exec", dont_inherit=True)
                _run_code(code, module.__dict__)
            except SystemExit as error:
                if error.code in (0, None):
                    return Ending("finished")
                return Ending("exited", self._error_line(error), error, error.code)
            except BaseException as error:
                return Ending("raised", self._error_line(error), error)
        return Ending("finished")

    def _error_line(self, error: BaseException) -> int:
        stack = stacks.stack_of_traceback(error.__traceback__)
        return next((one.line for one in reversed(stack) if one.path == self.path), -1)

    def lacks_after(self, ending: Ending) -> Lack:
        """Return the resource that the program lacked when it ended, if fake tensors can replace
        it.

        "gpu": the program needs a GPU. "memory": memory ran out before any compiled callable was
        called. The result is empty if the program lacked neither.
        """
        error = ending.error
        if self.lacks or error is None:
            return ""
        words = texts.error_message(error)
        if devices.is_missing_gpu_error(words):
            return "gpu"
        if texts.is_out_of_memory(error):
            return "" if any(one.calls for one in self.regions.all) else "memory"
        # Such as ``assert torch.cuda.is_available(), "This needs a GPU"``, or ``sys.exit`` after an
        # ``if``.
        line = linecache.getline(self.path, ending.line + 1)
        refuses = isinstance(error, (AssertionError, RuntimeError, SystemExit))
        return "gpu" if refuses and _ASKS_FOR_GPU.search(f"{words}\n{line}") else ""

    def describe_ending(
        self, how: ProgramEnd, frame: types.FrameType | None, status: object = None
    ) -> Ending:
        """Describe an ending that the engine decides; ``how`` says which one, such as a time limit.

        ``frame`` is a live frame of the program; ``status`` is its exit status, if any.
        """
        self.recorder.collect_results()
        return Ending(how, self.line_of(frame), status=status)

    def line_of(self, frame: types.FrameType | None) -> int:
        """Return the zero-based line of the program's own file that a live frame is executing.

        This is the line of the innermost frame in that file; -1 if there is none.
        """
        while frame is not None:
            if frame.f_code.co_filename == self.path:
                return frame.f_lineno - 1
            frame = frame.f_back
        return -1

    def record_failure(self, error: BaseException) -> None:
        """Record the graph break that made a call with ``fullgraph=True`` raise an exception.

        A ``UserError`` without a location in traced code is not a graph break: Dynamo refused the
        arguments of the call, such as a wrong ``dynamic_shapes``.
        """
        if isinstance(error, BREAKS):
            traced = getattr(error, "_fullgraph_stack", None)
            traced = traced or stacks.stack_of_summary(getattr(error, "real_stack", None))
            if traced or not isinstance(error, UserError):
                self.recorder.record_break(error, "raised", traced)

    @property
    def compile_seconds(self) -> float:
        """Processor seconds of AOTAutograd and Inductor; 0 if a graph was not compiled to the
        end."""
        record = CompilationRecord.join(self.compiled)
        return record.processor_seconds if record.is_complete else 0.0

    def settle_compilation(self) -> None:
        """Store what AOTAutograd and Inductor did with the graphs of the program's own calls.

        Call it when the program has ended, before further calls.
        """
        if self._graph_compiler is not None:
            self.recorder.collect_results()
            self.compiled = self._graph_compiler.take_records(self.recording, self.path)

    def observe_end(self) -> tuple[int, str]:
        """Record the values at the end of the program, then make further calls of its compiled
        functions.

        Return the number of further calls, and a description of how their results differ from eager
        mode; "" if they agree.
        """
        if self.values is None or self.lacks:
            return 0, ""
        self._ended = True
        self.values.add_state(vars(sys.modules["__main__"]))
        if self._graph_compiler is not None:
            # Make no further calls with a real compiler: each new size takes long to compile, and
            # rounding makes results differ from eager mode.
            return 0, ""
        failures = {region: len(region.failures) for region in self.regions.all}
        with self.recorder.listen():
            arguments = list(self._arguments.values())
            most = self.request.further_calls
            note = self.values.add_further
            made = make_further_calls(arguments, most, self.remember_records, note)
        for region, count in failures.items():
            # Remove failures of calls that the program itself did not make.
            del region.failures[count:]
        self.recorder.collect_results()
        return made

    def region_compiled(self, region: LiveRegion, compiled: Any) -> None:
        if self.values is not None and not region.is_export:
            self._observed_modules.observe_classes()
            known = self._arguments.setdefault(region, RegionArguments(compiled, name=region.name))
            known.compiled = compiled

    def before_call(self, region: LiveRegion, call: CompiledCall, frame: types.FrameType) -> None:
        known = self._arguments.get(region)
        is_part = self._observed_modules.is_running
        if self.values is None or known is None or self.active or self._ended or is_part:
            return
        known.note_call(call)
        note = functools.partial(self._add_result, region.name, call)
        when_returned(frame, dynamo.disable(note))

    def _add_result(self, name: str, call: CompiledCall, result: Any) -> None:
        if self.values is not None and not self._ended:
            self.values.add_result(name, call, result)

    def after_call(self, region: LiveRegion) -> None:
        if self.active or self._ended:
            return
        if not region.quiet:
            self.on_new_work()
        if self.seconds < QUIET_SECONDS:
            return
        known = [one for one in self.regions.all if one.calls and not one.is_export]
        if all(one.quiet >= QUIET_CALLS for one in known):
            self._stop(self.describe_ending("quiet", sys._getframe(1)))

    def _watch_warnings(self) -> None:
        """Record Dynamo's warnings with their stacks; Python still shows them as usual."""
        show = warnings.showwarning

        @functools.wraps(show)
        def showwarning(
            message: Any, category: Any, filename: str, lineno: int, *rest: Any
        ) -> None:
            watch = recorder.active_recorder()
            words = texts.plain(str(message))
            if watch is not None and words.startswith("Dynamo "):
                call = self.active[-1] if self.active else None
                self.warnings.append(DynamoWarning(words, watch.current_stack(), call))
            show(message, category, filename, lineno, *rest)

        warnings.showwarning = showwarning  # type: ignore[assignment]


def _run_code(code: types.CodeType, namespace: dict[str, Any]) -> None:
    """Execute the program's code; recorded stacks show only frames inside this call."""
    exec(code, namespace)


def stop_words(ending: Ending, seconds: float, called: int) -> str:
    """Explain in a sentence why the engine stopped a program; empty if the engine did not stop it.

    ``seconds`` is how long it ran, and ``called`` the number of compiled callables that it called.
    """
    at = f" at line {ending.line + 1}" if ending.line >= 0 else ""
    regions = f"Until then, it called {called} compiled region{'' if called == 1 else 's'}"
    if ending.how == "time":
        return f"The program was stopped after {seconds:.0f} s{at}. {regions}."
    if ending.how == "quiet":
        return (
            f"The program was stopped after {seconds:.0f} s{at}, because the last {QUIET_CALLS} "
            f"calls of each compiled region compiled nothing. {regions}."
        )
    return ""
