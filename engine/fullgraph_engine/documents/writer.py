"""Write documents about a trace of a target (graphs, bytecode, ShapeEnv events) while it
executes."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

from ..protocol import Frame
from ..protocol.documents import DocumentKind
from ..shapes import ReplayBudget
from ..torch_internals import frames
from ..tracing import stacks
from ..tracing.recording import Break, Graph, Skip, TracedFrame
from .bytecode import disassemble, instruction_count
from .events import comparison_text, explanations_text, saved_events, timeline_text
from .graphs import graph_code
from .places import PlaceFormatter
from .sink import DocumentRequest

_AFTER = {
    "resumed": "this line runs in Python; a new graph starts after it",
    "rest-skipped": "the rest of the function runs in Python",
    "frame-skipped": "the whole function runs in Python",
    "raised": "an error, because of fullgraph=True",
}


MAX_EXPLANATION_SECONDS = 5.0
"""Maximum seconds per trace for computing why sizes became constant; the trace waits for it."""


class DocumentWriter:
    """An observer of a trace that writes the requested documents about the trace.

    It sends every section as soon as it is complete, because the run may not finish.
    """

    def __init__(self, request: DocumentRequest, path: str, text: str) -> None:
        self._request = request
        self._places = PlaceFormatter(path, text)
        self._attempts = 0
        self._graphs = 0
        self._codes: dict[int, types.CodeType] = {}
        self._breaks: dict[int, list[Break]] = {}
        self._written: set[int] = set()
        """Numbers of the compiled frames whose graph was already sent."""
        self._mistakes: set[str] = set()
        self._tapes: list[Any] = []
        self._tapes_written = 0
        """Number of ShapeEnvs whose events were already sent."""
        self._explaining = ReplayBudget(MAX_EXPLANATION_SECONDS)

    @contextlib.contextmanager
    def write_attempt(self, *, sizes_only: bool = False) -> Iterator[DocumentWriter | None]:
        """Write the documents about the trace that happens in the ``with`` block.

        The context manager yields this writer, to be passed to the trace as an observer. With
        ``sizes_only``, it yields None and writes only ShapeEnv events, because other runs provide
        the graphs and the bytecode.
        """
        self._attempts += 1
        self._graphs = self._tapes_written = 0
        self._explaining = ReplayBudget(MAX_EXPLANATION_SECONDS)
        self._codes, self._breaks, self._written = {}, {}, set()
        self._request.begin_attempt(str(self._attempts))
        with contextlib.ExitStack() as hooks:
            if not sizes_only and self._request.wants_kind("bytecode"):
                self._hook_bytecode(hooks)
            if self._request.wants_kind("events"):
                hooks.enter_context(self._record_events())
            yield None if sizes_only else self

    # -- callbacks of the trace's recorder ----------------------------------------------------

    def enter_frame(self, frame: int, code: types.CodeType) -> None:
        self._codes[frame] = code

    def observe_break(self, record: Break) -> None:
        self._breaks.setdefault(record.frame, []).append(record)

    def capture_graph(self, graph: Graph, module: Any) -> None:
        if not self._request.wants_kind("graph"):
            return
        self._graphs += 1
        self._written.add(graph.frame)
        with self._report_failures("graph"):
            self._write_graph(graph, module)

    def _write_graph(self, graph: Graph, module: Any) -> None:
        ops = f"{len(graph.ops)} op{'' if len(graph.ops) == 1 else 's'}"
        title = f"Graph {self._graphs}: {self._describe_function(graph.frame)} ({ops})"
        lines = [f"# {title}", graph_code(self._graphs, graph, module, self._places).rstrip("\n")]
        lines += self._break_comments(graph.frame)
        self._request.write_part("graph", title, "\n".join(lines) + "\n")

    def observe_skip(self, record: Skip) -> None:
        if not self._request.wants_kind("graph") or stacks.is_torch(record.path):
            return
        function = self._places.describe_function(record.path, record.function, record.line)
        title = f"Not traced: {function}"
        text = f"# {title}\n#   {_first_line(record.reason)}\n"
        self._request.write_part("graph", title, text)

    def leave_frame(self, frame: TracedFrame) -> None:
        code = self._codes.get(frame.id)
        if code is not None and not stacks.is_torch(code.co_filename):
            self._write_left_frame(frame)
        self._codes.pop(frame.id, None)
        self._breaks.pop(frame.id, None)
        if not self._codes:
            # Dynamo has finished all frames, so the events since the last call are complete.
            self._write_tapes()

    def _write_left_frame(self, frame: TracedFrame) -> None:
        if frame.outcome == "failed":
            self._write_ungraphed(frame, f"tracing failed: {_first_line(frame.reason)}")
        elif frame.id in self._written:
            pass
        elif frame.outcome == "compiled":
            self._write_ungraphed(frame, "no graph, because it has no tensor operations")
        else:
            self._write_ungraphed(
                frame, f"not compiled: {_first_line(frame.reason)}" if frame.reason else ""
            )

    def _write_ungraphed(self, frame: TracedFrame, words: str) -> None:
        """Write the section about a frame without a captured graph; ``words`` say why there is
        none."""
        ends = self._break_comments(frame.id)
        if ends and frame.outcome == "compiled":
            words = "no graph, because no tensor operation runs before the graph break"
        title = f"{self._describe_function(frame.id)}: {words or 'not compiled'}"
        if self._request.wants_kind("graph"):
            self._request.write_part("graph", title, "\n".join([f"# {title}", *ends]) + "\n")
        if frame.outcome != "compiled" and self._request.wants_kind("bytecode"):
            self._request.write_part(
                "bytecode", title, "Dynamo did not change the bytecode of this function.\n"
            )

    def _describe_function(self, frame: int) -> str:
        code = self._codes.get(frame)
        return self._places.describe_code(code) if code is not None else "?"

    def _break_comments(self, frame: int) -> Iterator[str]:
        """Yield comments on the graph breaks of a frame: the line, the break, and what Dynamo did
        then.
        """
        code = self._codes.get(frame)
        for record in self._breaks.get(frame, ()):
            inner = record.stack[-1] if record.stack else None
            stop = self._find_stop(record, code)
            number = f"{record.id} " if record.id else ""
            if stop is not None:
                yield f"# graph break in {self._places.describe_line(stop)}"
            else:
                yield "# graph break"
            if inner is not None and stop is not None and inner != stop:
                function = self._places.qualified_function(inner)
                yield f"#   inside, in {function}, {self._places.describe_line(inner)}"
            yield f"#   {number}{record.kind}"
            yield f"#   -> {_AFTER[record.outcome]}"

    def _find_stop(self, record: Break, code: types.CodeType | None) -> Frame | None:
        """Return the stack frame in which the compiled function ``code`` reached a graph break.

        If the function is not on the stack, return the innermost frame in the user's file.
        """
        if code is not None:
            name = frames.original_name(code.co_name)
            lines = {line - 1 for _, _, line in code.co_lines() if line is not None}
            for frame in record.stack:
                if (frame.path, frame.function) == (code.co_filename, name) and frame.line in lines:
                    return frame
        return self._places.innermost_frame(record.stack)

    # -- bytecode -----------------------------------------------------------------------------

    def _hook_bytecode(self, hooks: contextlib.ExitStack) -> None:
        register = frames.BYTECODE_HOOK.get()
        if register is None:
            self._request.write_part(
                "bytecode",
                "Not available",
                f"The installed torch does not have `{frames.BYTECODE_HOOK.name}`, which "
                "fullgraph needs to show bytecode.\n",
            )
            return
        handle = register(self._write_bytecode)
        hooks.callback(handle.remove)

    def _write_bytecode(self, code: types.CodeType, new: types.CodeType) -> None:
        """Write the bytecode of a frame before and after Dynamo's changes; Dynamo calls this method
        as a bytecode hook."""
        if not self._request.wants_kind("bytecode"):
            return
        with self._report_failures("bytecode"):
            title = self._places.describe_code(code)
            before, after = instruction_count(code), instruction_count(new)
            self._request.write_part(
                "bytecode",
                f"{title} ({before} instructions, {after} after Dynamo)",
                f"original\n{disassemble(code)}\ntransformed\n{disassemble(new)}",
            )

    # -- events -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _record_events(self) -> Iterator[None]:
        from .. import shapes

        try:
            with shapes.record_tapes() as self._tapes:
                yield
        finally:
            self._write_tapes()
            self._tapes = []

    def _write_tapes(self) -> None:
        """Write the ShapeEnv events of all frames that Dynamo has finished compiling since the last
        call."""
        from .. import shapes

        for tape in self._tapes[self._tapes_written :]:
            self._tapes_written += 1
            if self._request.wants_kind("events"):
                with self._report_failures("events"):
                    self._write_tape(tape, shapes.build_timeline(tape))

    def _write_tape(self, tape: Any, timeline: Any) -> None:
        if stacks.is_torch(timeline.path):
            return
        request, number = self._request, timeline.tape + 1
        before = request.compare_events.get(number)
        if before is not None:
            text, differs = comparison_text(before, tape, self._places)
        else:
            text, differs = timeline_text(timeline, self._places), False
            if not text.strip():
                return
            if explained := explanations_text(tape, self._explaining):
                text += f"\n{explained}\n"
        archive = saved_events(tape) if request.save_events else ""
        name = self._places.describe_function(timeline.path, timeline.function, timeline.line)
        title = f"ShapeEnv {number}: {name}"
        request.write_part("events", title, text, number=number, archive=archive, differs=differs)

    @contextlib.contextmanager
    def _report_failures(self, kind: DocumentKind) -> Iterator[None]:
        """If code in the ``with`` block raises, write the error as the section's text, and
        continue."""
        try:
            yield
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            if words not in self._mistakes:
                self._mistakes.add(words)
                mark = "# " if kind == "graph" else ""
                text = f"{mark}Left out, because fullgraph itself failed: {words}"
                self._request.write_part(kind, "Left out", text.replace("\n", f"\n{mark}") + "\n")


def _first_line(words: str) -> str:
    """Return the first line of a text, without its full stop."""
    lines = words.strip().split("\n")
    return lines[0].strip().rstrip(".") if lines else ""
