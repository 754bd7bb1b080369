"""Writes a run down while it goes on."""

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
from .bytecode import disassembly, instruction_count
from .events import archived, comparison_text, explanations_text, timeline_text
from .graphs import graph_code
from .places import Places
from .sink import Commission

_AFTER = {
    "resumed": "Python does this, and the next graph goes on behind it",
    "rest-skipped": "the rest of the function is left to Python",
    "frame-skipped": "the whole function is left to Python",
    "raised": "an error, because of fullgraph=True",
}


EXPLAINING = 5.0
"""Seconds that all explanations of one trace may take together, while it waits."""


class Writer:
    """A witness of traces, which writes what it is commissioned to.

    Every part is told as soon as it is complete: nobody knows whether the run lives to its end.
    """

    def __init__(self, commission: Commission, path: str, text: str) -> None:
        self._commission = commission
        self._places = Places(path, text)
        self._attempts = 0
        self._graphs = 0
        self._codes: dict[int, types.CodeType] = {}
        self._breaks: dict[int, list[Break]] = {}
        self._written: set[int] = set()
        """Frames of which all is written that there is to say."""
        self._mistakes: set[str] = set()
        self._tapes: list[Any] = []
        self._played = 0
        """How many of the tapes are written down."""
        self._explaining = ReplayBudget(EXPLAINING)

    @contextlib.contextmanager
    def attempt(self, *, sizes_only: bool = False) -> Iterator[Writer | None]:
        """Write about one trace. With ``sizes_only`` graphs and bytecode are another run's."""
        self._attempts += 1
        self._graphs = self._played = 0
        self._explaining = ReplayBudget(EXPLAINING)
        self._codes, self._breaks, self._written = {}, {}, set()
        self._commission.begin(str(self._attempts))
        with contextlib.ExitStack() as hooks:
            if not sizes_only and self._commission.wants("bytecode"):
                self._hook_bytecode(hooks)
            if self._commission.wants("events"):
                hooks.enter_context(self._events())
            yield None if sizes_only else self

    # -- what the recorder shows --------------------------------------------------------------

    def entered(self, frame: int, code: types.CodeType) -> None:
        self._codes[frame] = code

    def broke(self, record: Break) -> None:
        self._breaks.setdefault(record.frame, []).append(record)

    def captured(self, graph: Graph, module: Any) -> None:
        if not self._commission.wants("graph"):
            return
        self._graphs += 1
        self._written.add(graph.frame)
        with self._careful("graph"):
            self._write_graph(graph, module)

    def _write_graph(self, graph: Graph, module: Any) -> None:
        ops = f"{len(graph.ops)} op{'' if len(graph.ops) == 1 else 's'}"
        title = f"Graph {self._graphs}: {self._function(graph.frame)} ({ops})"
        lines = [f"# {title}", graph_code(self._graphs, graph, module, self._places).rstrip("\n")]
        lines += self._ends(graph.frame)
        self._commission.write("graph", title, "\n".join(lines) + "\n")

    def skipped(self, record: Skip) -> None:
        if not self._commission.wants("graph") or stacks.is_torch(record.path):
            return
        function = self._places.named(record.path, record.function, record.line)
        title = f"Not traced: {function}"
        text = f"# {title}\n#   {_sentence(record.reason)}\n"
        self._commission.write("graph", title, text)

    def left(self, frame: TracedFrame) -> None:
        code = self._codes.get(frame.id)
        if code is not None and not stacks.is_torch(code.co_filename):
            self._tell_left(frame)
        self._codes.pop(frame.id, None)
        self._breaks.pop(frame.id, None)
        if not self._codes:
            # No frame is being compiled any more, and the program is about to go on.
            self._write_tapes()

    def _tell_left(self, frame: TracedFrame) -> None:
        if frame.outcome == "failed":
            self._note(frame, f"tracing failed: {_sentence(frame.reason)}")
        elif frame.id in self._written:
            pass
        elif frame.outcome == "compiled":
            self._note(frame, "no graph, as there are no tensor operations")
        else:
            self._note(frame, f"not compiled: {_sentence(frame.reason)}" if frame.reason else "")

    def _note(self, frame: TracedFrame, words: str) -> None:
        """A frame without a graph."""
        ends = self._ends(frame.id)
        if ends and frame.outcome == "compiled":
            words = "no graph, as there are no tensor operations before the break"
        title = f"{self._function(frame.id)}: {words or 'not compiled'}"
        if self._commission.wants("graph"):
            self._commission.write("graph", title, "\n".join([f"# {title}", *ends]) + "\n")
        if frame.outcome != "compiled" and self._commission.wants("bytecode"):
            self._commission.write("bytecode", title, "Its bytecode runs as it is.\n")

    def _function(self, frame: int) -> str:
        code = self._codes.get(frame)
        return self._places.function(code) if code is not None else "?"

    def _ends(self, frame: int) -> Iterator[str]:
        """Comments on the breaks of a frame: where it stops, where the break is, and what then."""
        code = self._codes.get(frame)
        for record in self._breaks.get(frame, ()):
            inner = record.stack[-1] if record.stack else None
            stop = self._stop(record, code)
            number = f"{record.id} " if record.id else ""
            if stop is not None:
                yield f"# graph break in {self._places.line(stop)}"
            else:
                yield "# graph break"
            if inner is not None and stop is not None and inner != stop:
                yield f"#   inside, in {self._places.frame(inner)}, {self._places.line(inner)}"
            yield f"#   {number}{record.kind}"
            yield f"#   -> {_AFTER[record.outcome]}"

    def _stop(self, record: Break, code: types.CodeType | None) -> Frame | None:
        """The frame of the function that is being compiled, at the call that leads to a break."""
        if code is not None:
            name = frames.original_name(code.co_name)
            lines = {line - 1 for _, _, line in code.co_lines() if line is not None}
            for frame in record.stack:
                if (frame.path, frame.function) == (code.co_filename, name) and frame.line in lines:
                    return frame
        return self._places.innermost(record.stack)

    # -- bytecode -----------------------------------------------------------------------------

    def _hook_bytecode(self, hooks: contextlib.ExitStack) -> None:
        register = frames.BYTECODE_HOOK.get()
        if register is None:
            self._commission.write(
                "bytecode", "Not available", f"This torch has no {frames.BYTECODE_HOOK.name}.\n"
            )
            return
        handle = register(self._transformed)
        hooks.callback(handle.remove)

    def _transformed(self, code: types.CodeType, new: types.CodeType) -> None:
        """Called by Dynamo with what a frame was and what it has made of it."""
        if not self._commission.wants("bytecode"):
            return
        with self._careful("bytecode"):
            title = self._places.function(code)
            before, after = instruction_count(code), instruction_count(new)
            self._commission.write(
                "bytecode",
                f"{title} ({before} instructions, {after} after Dynamo)",
                f"original\n{disassembly(code)}\ntransformed\n{disassembly(new)}",
            )

    # -- events -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _events(self) -> Iterator[None]:
        from .. import shapes

        try:
            with shapes.record_tapes() as self._tapes:
                yield
        finally:
            self._write_tapes()
            self._tapes = []

    def _write_tapes(self) -> None:
        """Those of frames that are compiled: nothing more happens to their sizes."""
        from .. import shapes

        for tape in self._tapes[self._played :]:
            self._played += 1
            if self._commission.wants("events"):
                with self._careful("events"):
                    self._write_tape(tape, shapes.build_timeline(tape))

    def _write_tape(self, tape: Any, timeline: Any) -> None:
        if stacks.is_torch(timeline.path):
            return
        commission, number = self._commission, timeline.tape + 1
        before = commission.compare_events.get(number)
        if before is not None:
            text, differs = comparison_text(before, tape, self._places)
        else:
            text, differs = timeline_text(timeline, self._places), False
            if not text.strip():
                return
            if explained := explanations_text(tape, self._explaining):
                text += f"\n{explained}\n"
        archive = archived(tape) if commission.save_events else ""
        name = self._places.named(timeline.path, timeline.function, timeline.line)
        title = f"ShapeEnv {number}: {name}"
        commission.write("events", title, text, number=number, archive=archive, differs=differs)

    @contextlib.contextmanager
    def _careful(self, kind: DocumentKind) -> Iterator[None]:
        """A mistake of ours costs a part of a document, and says so."""
        try:
            yield
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            if words not in self._mistakes:
                self._mistakes.add(words)
                mark = "# " if kind == "graph" else ""
                text = f"{mark}Left out, as fullgraph failed on it: {words}"
                self._commission.write(kind, "Left out", text.replace("\n", f"\n{mark}") + "\n")


def _sentence(words: str) -> str:
    """The first line, as part of a sentence."""
    lines = words.strip().split("\n")
    return lines[0].strip().rstrip(".") if lines else ""
