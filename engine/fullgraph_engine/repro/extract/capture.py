"""The variables of a frame when a line was reached, captured by running the call eagerly.

Dynamo only simulates user code. A generated program that starts in the middle of a function needs
the values that exist when the same call runs without Dynamo.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from ...protocol import Frame
from ...torch_internals.frames import original_name
from ...tracing.stacks import is_machinery, is_torch
from .statements import Definition, Layer, beginning_lines, function_around, layers_around

AHEAD = (0, 1, 2, 4)
"""Numbers of preceding statements to include when a program is written for one statement.

One program is written for each number.
"""

_DEEPEST = 2
MOST = 12
"""Maximum number of executions of one line whose variables are captured; the last ones are kept."""


class _Enough(BaseException):
    """Raised to stop the user's code when the variables of all wanted frames have been captured."""


class FrameVariables(dict[str, Any]):
    """The variables of a frame by name; ``grad`` says whether the frame records gradients."""

    grad: bool = True


def _make_history() -> deque[FrameVariables]:
    return deque(maxlen=MOST)


@dataclass
class CapturedFrame:
    """A frame of user code that leads to a finding, with values of its variables captured while the
    code runs.

    ``layers`` are the statements around the frame's line, innermost first. ``visits`` maps the
    index of each such statement to the variables before each of its executions. ``before`` has the
    variables before an earlier statement of the same block. Its key is (index in ``layers``, number
    of statements between the earlier one and the statement in ``layers``). ``entries`` has the
    arguments of each call of the frame's function. Lists are in the order of execution.
    """

    frame: Frame
    definition: Definition
    layers: tuple[Layer, ...]
    code: CodeType | None = None
    globals: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)
    entries: deque[FrameVariables] = field(default_factory=_make_history)
    visits: dict[int, deque[FrameVariables]] = field(
        default_factory=lambda: defaultdict(_make_history)
    )
    before: dict[tuple[int, int], deque[FrameVariables]] = field(
        default_factory=lambda: defaultdict(_make_history)
    )

    @property
    def reached(self) -> bool:
        return self.code is not None

    @property
    def entered(self) -> FrameVariables:
        """Arguments of the last call of the frame's function."""
        return self.entries[-1]

    def variables_at(self, depth: int) -> FrameVariables:
        """Return the variables before the last execution of a statement around the frame's line.

        ``depth`` selects the statement; 0 is the innermost.
        """
        return self.visits[depth][-1]


def find_capturable_frames(frames: Sequence[Frame]) -> list[CapturedFrame]:
    """Select the frames whose source is known, so that their variables can be captured."""
    found: list[CapturedFrame] = []
    for frame in frames:
        definition = function_around(frame.path, original_name(frame.function), frame.line + 1)
        if definition is not None:
            found.append(
                CapturedFrame(frame, definition, layers_around(definition, frame.line + 1))
            )
    return found


def find_functions(call: Callable[[], Any]) -> list[Frame]:
    """Return the first 24 functions of the user that a call enters, as frames at their first
    lines.
    """
    found: dict[CodeType, Frame] = {}

    def on_frame(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        path, line = code.co_filename, code.co_firstlineno - 1
        if len(found) < 24 and not is_torch(path) and not is_machinery(path):
            found.setdefault(code, Frame(path, code.co_name, line))

    _call_traced(call, on_frame)
    return list(found.values())


def watch_call(
    call: Callable[[], Any], wanted: Sequence[CapturedFrame], *, whole: bool = False
) -> None:
    """Make a call and capture the variables of the ``wanted`` frames; stop the call when all are
    captured.

    With ``whole``, the call runs to its end, so that all later executions are captured, too.
    Exceptions of the call are ignored.
    """
    if not wanted:
        return
    _call_traced(call, _FrameWatcher(wanted, whole).on_call)


def _call_traced(call: Callable[[], Any], entered: Callable[[FrameType, str, Any], Any]) -> None:
    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    except BaseException:
        return
    finally:
        sys.settrace(before)


class _FrameWatcher:
    """A trace function (for ``sys.settrace``) that captures the variables of the wanted frames.

    It stops the call when all are captured, unless ``whole`` is true.
    """

    def __init__(self, wanted: Sequence[CapturedFrame], whole: bool) -> None:
        self._by_file: dict[str, list[CapturedFrame]] = {}
        for captured in wanted:
            self._by_file.setdefault(captured.frame.path, []).append(captured)
        self._last, self._whole = wanted[-1], whole

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        nearby = self._by_file.get(frame.f_code.co_filename, ())
        here = [captured for captured in nearby if _is_code_of(frame.f_code, captured.definition)]
        for captured in here:
            self._record_entry(frame, captured)
        inside = [(captured, _lines_ahead(captured)) for captured in here if captured.layers]
        before = -1

        def on_event(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "line":
                for captured, ahead in inside:
                    self._record_line(frame, captured, ahead, before)
                before = frame.f_lineno
            return on_event

        return on_event if inside else None

    def _record_entry(self, frame: FrameType, captured: CapturedFrame) -> None:
        captured.code, captured.globals = frame.f_code, frame.f_globals
        captured.entries.append(snapshot_variables(frame))
        captured.cells = {name: captured.entered.get(name) for name in frame.f_code.co_freevars}
        if captured is self._last and not captured.layers:
            self._stop_if_done()

    def _record_line(
        self,
        frame: FrameType,
        captured: CapturedFrame,
        ahead: dict[int, tuple[int, int]],
        before: int,
    ) -> None:
        """Capture the variables if the next line to run is the beginning of a wanted statement.

        ``ahead`` maps the first lines of preceding statements to keys of ``CapturedFrame.before``.
        ``before`` is the line that ran last in this frame.
        """
        line = frame.f_lineno
        if line in ahead:
            captured.before[ahead[line]].append(snapshot_variables(frame))
        for depth in range(len(captured.layers) - 1, -1, -1):
            layer = captured.layers[depth]
            if layer.first <= line <= layer.head and not layer.first <= before <= layer.last:
                captured.visits[depth].append(snapshot_variables(frame))
                if captured is self._last and depth == 0:
                    self._stop_if_done()

    def _stop_if_done(self) -> None:
        if not self._whole:
            sys.settrace(None)
            raise _Enough


def _lines_ahead(captured: CapturedFrame) -> dict[int, tuple[int, int]]:
    """Map the first line of each preceding statement to its key in ``CapturedFrame.before``."""
    return {
        beginning_lines(layer.statements_from(many)[0])[0]: (depth, many)
        for depth, layer in enumerate(captured.layers[:_DEEPEST])
        for many in AHEAD
        if layer.statements_from(many)
    }


def snapshot_variables(frame: FrameType) -> FrameVariables:
    """Return the variables of a frame, with copies of its lists, dicts and sets."""
    found = FrameVariables({name: _copy_container(value) for name, value in frame.f_locals.items()})
    found.grad = torch.is_grad_enabled()
    return found


def _copy_container(value: Any) -> Any:
    if type(value) in (list, dict, set):
        with contextlib.suppress(Exception):
            return value.copy()
    return value


def _is_code_of(code: CodeType, definition: Definition) -> bool:
    if isinstance(definition, ast.Lambda):
        return code.co_name == "<lambda>" and code.co_firstlineno == definition.lineno
    lines = [definition.lineno, *(each.lineno for each in definition.decorator_list)]
    named = code.co_name == definition.name
    return named and code.co_firstlineno in (min(lines), definition.lineno)
