"""Listens to Dynamo and writes down what it does.

:func:`install` wraps the adapter's hooks once per process; the wrappers do nothing until a
:class:`Recorder` is active. They are installed in the warm parent, so a run pays nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from . import adapter, failed_guards, guards, shapes_seen, stacks, values
from .describe import describe_value
from .recording import (
    Break,
    Cause,
    CustomOp,
    Graph,
    Op,
    Outcome,
    Recompile,
    Recording,
    Resolution,
    RuntimeAssert,
    Skip,
    Specialisation,
    Stack,
    Symbol,
    TracedFrame,
)
from .witness import Witness

_LOCATION = "fullgraph_location"
"""Key in ``Node.meta`` for the raw stack of the instruction that created the node."""

_active: Recorder | None = None


def active() -> Recorder | None:
    """The recorder of the run in progress."""
    return _active


@contextlib.contextmanager
def _never_disturb(recorder: Recorder) -> Iterator[None]:
    """What goes wrong while writing something down must not change what Dynamo does."""
    try:
        yield
    except Exception as error:
        recorder.lose(error)


class Recorder:
    """Collects one :class:`Recording`.

    ``on_break`` is called at once for every graph break. ``bottom`` is the code object of the
    function that starts the traced call: frames outside it are not the user's. ``file`` is the
    one whose values are to be told.
    """

    def __init__(
        self,
        bottom: types.CodeType | None = None,
        on_break: Callable[[Break], None] | None = None,
        file: str = "",
        witness: Witness | None = None,
    ) -> None:
        self.witness = witness
        self.recording = Recording()
        self.values = values.Values(file, self.lose)
        self.shapes = shapes_seen.Shapes(file, self.lose)
        self.guards = guards.Guards(self.recording)
        self.bottom = bottom
        self.on_break = on_break
        self._open: list[int] = []
        self._frames = 0
        self._assert_stacks: dict[tuple[int, str], Stack] = {}
        self._last_unlogged: BaseException | None = None

    @contextlib.contextmanager
    def listen(self) -> Iterator[Recording]:
        """Record everything until the block ends. Recorders do not nest."""
        global _active
        previous, _active = _active, self
        try:
            yield self.recording
        finally:
            _active = previous
            with _never_disturb(self):
                self.recording.seen = self.values.seen()
            with _never_disturb(self):
                failure = self.recording.failure
                failed = failure is not None and failure.phase == "tracer"
                self.recording.shapes = self.shapes.seen(failed)
                self.recording.shapes_left_out = self.shapes.left_out

    def lose(self, error: Exception) -> None:
        """Note a mistake of ours."""
        loss = f"{type(error).__name__}: {error}"
        if loss not in self.recording.losses:
            self.recording.losses.append(loss)

    # -- what the hooks report ----------------------------------------------------------------

    @property
    def frame(self) -> int:
        return self._open[-1] if self._open else -1

    def enter_frame(self, code: types.CodeType) -> int:
        self._frames += 1
        self._open.append(self._frames - 1)
        if self.witness is not None:
            with _never_disturb(self):
                self.witness.entered(self.frame, code)
        return self._frames - 1

    def leave_frame(self, frame: TracedFrame) -> None:
        self._open.pop()
        self.recording.frames.append(frame)
        with _never_disturb(self):
            self.shapes.leave(frame.id, self.frame, frame.outcome)
        if self.witness is not None:
            with _never_disturb(self):
                self.witness.left(frame)

    def saw_unsupported(self, error: BaseException) -> None:
        self._last_unlogged = error

    def broke(self, error: BaseException, outcome: Outcome, traced: Stack) -> None:
        """A graph break that Dynamo acted on. ``traced`` is the stack inside the tracer."""
        if getattr(error, "_fullgraph_recorded", False) or stacks.in_engine(traced):
            return
        with contextlib.suppress(AttributeError):
            error._fullgraph_recorded = True  # type: ignore[attr-defined]
        causes = causes_of(error)
        number = adapter.registry().get(causes[0].kind, "")
        record = Break(
            # Some errors are noticed only when their frame was left already.
            frame=self.frame if self._open else self._frames - 1,
            id=number,
            causes=causes,
            message=str(getattr(error, "msg", error)),
            outcome=outcome,
            stack=stacks.join(stacks.above(self.bottom), traced),
            href=adapter.break_link(number),
            inlined=len(traced),
            operator=str(getattr(error, "_hop_name", "")),
        )
        self.recording.breaks.append(record)
        if self.witness is not None:
            self.witness.broke(record)
        if self.on_break is not None:
            self.on_break(record)

    def skipped(self, reason: str, code: types.CodeType) -> None:
        error, self._last_unlogged = self._last_unlogged, None
        last = self.recording.recompiles[-1] if self.recording.recompiles else None
        if last is not None and last.limit and _is_code_of(last, code):
            return  # it is told as the end of too many recompiles
        if reason.startswith("an error was suppressed") and error is not None:
            if getattr(error, "_fullgraph_recorded", False):
                return
            if hasattr(error, "compile_id") and hasattr(error, "real_stack"):
                # Breaks raised outside the symbolic interpreter; by the same signs Dynamo logs
                # them.
                self.broke(error, "frame-skipped", (stacks.frame_of(code, None, None),))
                return
            # No break, as there was no graph yet (a generator cannot be compiled by itself).
            first = causes_of(error)[0]
            reason = f"{first.kind}: {first.explanation}" if first.explanation else first.kind
        if stacks.is_torch(code.co_filename):
            return  # hundreds a run, and none of them the user's
        name = stacks.original_name(code.co_name)
        skip = Skip(
            code.co_filename,
            name,
            code.co_firstlineno - 1,
            reason,
            stacks.above(self.bottom),
            resumed=name != code.co_name,
        )
        self.recording.skips.append(skip)
        if self.witness is not None:
            self.witness.skipped(skip)

    def captured(self, output: Any, module: Any) -> None:
        """A graph on its way to the backend."""
        shape_env = getattr(output, "shape_env", None)
        ops, sizes = [], {}
        for node in module.graph.nodes:
            value = node.meta.get("example_value")
            size = _sizes(value)
            if size is not None:
                sizes[node.name] = size
            if node.op in ("placeholder", "output", "get_attr"):
                continue
            target = node.target if isinstance(node.target, str) else _target_name(node.target)
            ops.append(
                Op(node.name, target, describe_value(value), _located(node.meta.get(_LOCATION)))
            )
        graph = Graph(self.frame, tuple(ops), sizes)
        self.recording.graphs.append(graph)
        self.shapes.captured(len(self.recording.graphs))
        if self.witness is not None:
            with _never_disturb(self):
                self.witness.captured(graph, module)
        for asserts in getattr(shape_env, "deferred_runtime_asserts", {}).values():
            for item in asserts:
                words = str(item.expr)
                stack = self._assert_stacks.get((id(shape_env), words), ())
                self.recording.asserts.append(
                    RuntimeAssert(self.frame, words, str(item.msg), stack)
                )

    def deferred(self, shape_env: Any, before: set[int]) -> None:
        """A condition was put off: only now it is known which line it comes from."""
        for item in _asserts(shape_env):
            if id(item) not in before:
                self._assert_stacks[id(shape_env), str(item.expr)] = self._here()

    def created(self, symbol: str, source: str, hint: int | None) -> None:
        self.recording.symbols.append(Symbol(self.frame, symbol, source, hint, self._here()))
        self.shapes.created(symbol, source, hint)

    def specialised(self, shape_env: Any, symbol: Any, value: str, reason: str) -> None:
        source = _source_of(shape_env, symbol)
        self.recording.specialisations.append(
            Specialisation(self.frame, str(symbol), source, value, reason, self._here())
        )

    def _here(self) -> Stack:
        return stacks.join(stacks.above(self.bottom), stacks.of_translator(_translator()))

    def guarded(self, code: types.CodeType, tree: Any) -> None:
        """The tree of guards of the frame at work is complete."""
        self.guards.built(self.frame, code, tree)


# -- hooks ------------------------------------------------------------------------------------


def install() -> tuple[str, ...]:
    """Wrap every hook of the adapter; the names of those that this torch lacks."""
    global _missing
    if _missing is None:
        wrappers = (
            (adapter.UNSUPPORTED, _around_unsupported),
            (adapter.USER_ERROR, _around_unsupported),
            (adapter.LOG_BREAK, _around_log_break),
            (adapter.COMPILE, _around_compile),
            (adapter.SKIP, _around_skip),
            (adapter.RECOMPILE, _around_recompile),
            (adapter.RECOMPILE_LIMIT, _around_recompile_limit),
            (adapter.COMPLIANCE, _around_compliance),
            (adapter.CREATE_NODE, _around_create_node),
            (adapter.CALL_COMPILER, _around_call_compiler),
            (adapter.CHECK_FUNCTION, _around_check_function),
            (adapter.GUARD_WORDS, _around_guard_words),
            (adapter.SIZE_PLACE, _around_size_place),
            (adapter.REPLACEMENT, _around_replacement),
            (adapter.CREATE_SYMBOL, _around_create_symbol),
            (adapter.CREATE_UNBACKED, _around_create_unbacked),
            (adapter.DEFER_ASSERT, _around_defer_assert),
        )
        missing = [hook.name for hook, around in wrappers if not hook.wrap(around)]
        lacking = [hook.name for hook in adapter.VALUES if hook.get() is None]
        if not lacking:
            adapter.TRANSLATOR.wrap(_around_translator)
            lacking = [hook.name for hook in adapter.SHAPES if hook.get() is None]
            if not lacking:
                adapter.ROOT_TRANSLATOR.wrap(_around_root_translator)
        _missing = (*missing, *lacking)
    return _missing


_missing: tuple[str, ...] | None = None


def _translator() -> Any:
    """The innermost symbolic interpreter at work, or None."""
    import torch._dynamo.symbolic_convert as convert

    root = getattr(convert.tls, "current_tx", None)
    return None if root is None else root.output.current_tx


def _around_unsupported(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        recorder = _active
        if recorder is None:
            return
        with _never_disturb(recorder):
            recorder.saw_unsupported(self)
            self._fullgraph_cause, source = _raised_by_unimplemented()
            self._fullgraph_source = source
            past = getattr(source, "_fullgraph_stack", None)
            if past is not None:
                self._fullgraph_stack = past
            elif summary := getattr(source, "real_stack", None):
                self._fullgraph_stack = stacks.of_summary(summary)
            else:
                self._fullgraph_stack = stacks.of_translator(_translator())

    return init


def _raised_by_unimplemented() -> tuple[Cause | None, BaseException | None]:
    """The words given to ``unimplemented`` and the exception it was called for.

    Its message is these words laid out for a terminal; its locals are the words themselves.
    """
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(5):
        if frame is None:
            break
        if frame.f_code.co_name.startswith("unimplemented") and "gb_type" in frame.f_locals:
            words = frame.f_locals
            cause = Cause(
                str(words["gb_type"]),
                str(words.get("explanation", "")),
                tuple(str(hint) for hint in words.get("hints") or ()),
                str(words.get("context", "")),
            )
            source = words.get("from_exc")
            return cause, source if isinstance(source, BaseException) else None
        frame = frame.f_back
    return None, None


def _around_log_break(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_graph_break(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _active
        error = kwargs.get("exc", args[2] if len(args) > 2 else None)
        if recorder is not None and error is not None:
            reason = str(kwargs.get("reason", args[1] if len(args) > 1 else ""))
            with _never_disturb(recorder):
                traced = getattr(error, "_fullgraph_stack", None) or stacks.of_translator(self)
                recorder.broke(error, _outcome(reason), traced)
        return original(self, *args, **kwargs)

    return log_graph_break


def _outcome(reason: str) -> Outcome:
    if reason.startswith("Failed to handle graph break gracefully"):
        return "frame-skipped"
    if reason.startswith("Encountered graph break that we cannot resume from"):
        return "rest-skipped"
    return "resumed"


def _around_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def _compile(code: types.CodeType, *args: Any, **kwargs: Any) -> Any:
        recorder = _active
        if recorder is None:
            return original(code, *args, **kwargs)
        frame = partial(
            TracedFrame,
            recorder.enter_frame(code),
            str(kwargs.get("compile_id", "")),
            stacks.original_name(code.co_name),
            code.co_filename,
            code.co_firstlineno - 1,
        )
        try:
            result = original(code, *args, **kwargs)
        except BaseException as error:
            recorder.leave_frame(frame("failed", f"{type(error).__name__}: {error}"))
            raise
        reason = getattr(result, "skip_reason", None)
        compiled = getattr(result, "guarded_code", None) is not None
        recorder.leave_frame(frame("compiled" if compiled else "skipped", reason or ""))
        return result

    return _compile


def _around_skip(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_skip_reason(reason: str, frame: Any) -> Any:
        if _active is not None:
            with _never_disturb(_active):
                _active.skipped(reason, frame.f_code)
        return original(reason, frame)

    return add_skip_reason


def _around_recompile(original: Callable[..., Any]) -> Callable[..., Any]:
    def reasons_of(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        reasons = original(cache_entries, frame, *args, **kwargs)
        if _active is not None:
            with _never_disturb(_active):
                code = frame.f_code
                latest_first = sorted(cache_entries, key=_compilation, reverse=True)
                _active.recording.recompiles.append(
                    Recompile(
                        stacks.original_name(code.co_name),
                        code.co_filename,
                        code.co_firstlineno - 1,
                        tuple(str(reason) for reason in reasons),
                        tuple(
                            failed
                            for entry in latest_first
                            for failed in failed_guards.of_entry(entry, frame.f_locals)
                        ),
                        stacks.above(_active.bottom),
                    )
                )
        return reasons

    return reasons_of


def _around_recompile_limit(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch._dynamo.config as config

    def exceeds_recompile_limit(*args: Any, **kwargs: Any) -> Any:
        exceeded, name = original(*args, **kwargs)
        if exceeded and _active is not None:
            with _never_disturb(_active):
                recompiles = _active.recording.recompiles
                limit = f"{name} = {getattr(config, name)}"
                recompiles[-1] = dataclasses.replace(recompiles[-1], limit=limit)
        return exceeded, name

    return exceeds_recompile_limit


def _is_code_of(recompile: Recompile, code: types.CodeType) -> bool:
    line = code.co_firstlineno - 1
    return (recompile.path, recompile.line) == (code.co_filename, line)


def _compilation(entry: Any) -> tuple[int, ...]:
    """The numbers of a compile id, ``0/2_1``."""
    return tuple(int(part) for part in re.findall(r"\d+", str(getattr(entry, "compile_id", ""))))


def _around_compliance(original: Callable[..., Any]) -> Callable[..., Any]:
    import torch._ops

    def check_pt2_compliant_op(output: Any, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        recorder = _active
        if recorder is None or kind != "call_function":
            return original(output, kind, target, args, kwargs)
        if not isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return original(output, kind, target, args, kwargs)
        # The sets keep each operator once and forget where it was called: look at what this one
        # call adds to empty ones.
        bad, good = output.non_compliant_ops, output.compliant_custom_ops
        output.non_compliant_ops, output.compliant_custom_ops = type(bad)(), type(good)()
        try:
            return original(output, kind, target, args, kwargs)
        finally:
            new_bad, new_good = output.non_compliant_ops, output.compliant_custom_ops
            output.non_compliant_ops, output.compliant_custom_ops = bad, good
            bad.update(new_bad)
            good.update(new_good)
            with _never_disturb(recorder):
                stack = stacks.join(
                    stacks.above(recorder.bottom), stacks.of_translator(output.current_tx)
                )
                for compliant, ops in ((False, new_bad), (True, new_good)):
                    for op in ops:
                        recorder.recording.custom_ops.append(
                            CustomOp(recorder.frame, str(op), compliant, _resolution(target), stack)
                        )

    return check_pt2_compliant_op


def _resolution(target: Any) -> Resolution:
    import torch._ops

    if isinstance(target, torch._ops.OpOverload):
        return "overload"
    return "single overload" if len(target.overloads()) == 1 else "resolved packet"


def _around_create_node(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = original(self, *args, **kwargs)
        if _active is not None:
            with _never_disturb(_active):
                node.meta[_LOCATION] = _raw_location(self.output_graph)
        return node

    return create_node


def _raw_location(output: Any) -> tuple[Any, ...]:
    """Code objects and positions only: most nodes are thrown away at a restart."""
    raw: list[Any] = []
    translator = output.current_tx
    while translator is not None:
        instruction = translator.current_instruction
        raw.append((translator.f_code, translator.lineno, getattr(instruction, "positions", None)))
        translator = getattr(translator, "parent", None)
    return tuple(raw)


def _located(raw: tuple[Any, ...] | None) -> Stack:
    return stacks.join((), tuple(stacks.frame_of(*entry) for entry in reversed(raw or ())))


def _around_call_compiler(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_user_compiler(self: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        if _active is not None:
            with _never_disturb(_active):
                _active.captured(self, module)
                _active.guards.captured(_active.frame, self)
        compiled = original(self, module, *args, **kwargs)
        return compiled if _active is None else _active.guards.entered(_active.frame, compiled)

    return call_user_compiler


def _around_check_function(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, code: Any, output: Any, *args: Any, **kwargs: Any) -> None:
        recorder = _active
        if recorder is None:
            original(self, code, output, *args, **kwargs)
            return
        written = recorder.recording.guards
        before = len(written)
        with recorder.guards.building():
            original(self, code, output, *args, **kwargs)
            with _never_disturb(recorder):
                recorder.guarded(code, self.guard_manager)
                failed_guards.remember(self.guard_manager, written[before:])

    return init


def _around_guard_words(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_verbose_code_parts(code_parts: Any, guard: Any, *args: Any, **kwargs: Any) -> Any:
        words = original(code_parts, guard, *args, **kwargs)
        if _active is not None:
            with _never_disturb(_active):
                _active.guards.spoken(code_parts, guard, words)
        return words

    return get_verbose_code_parts


def _around_size_place(original: Callable[..., Any]) -> Callable[..., Any]:
    def _get_sloc(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = original(self, *args, **kwargs)
        if _active is not None:
            with _never_disturb(_active):
                _active.guards.placed(place, _active._here)
        return place

    return _get_sloc


def _around_replacement(original: Callable[..., Any]) -> Callable[..., Any]:
    def _set_replacement(self: Any, symbol: Any, value: Any, reason: Any) -> Any:
        recorder = _active
        if recorder is None:
            return original(self, symbol, value, reason)
        known = symbol in self.replacements and self.replacements[symbol].is_number
        result = original(self, symbol, value, reason)
        new = self.replacements.get(symbol)
        if not known and new is not None and new.is_number:
            with _never_disturb(recorder):
                recorder.specialised(self, symbol, str(new), str(reason))
        return result

    return _set_replacement


def _around_create_symbol(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_symbol(self: Any, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, val, source, *args, **kwargs)
        if _active is not None and getattr(result, "is_Symbol", False):
            with _never_disturb(_active):
                hint = val if isinstance(val, int) else None
                _active.created(str(result), source_name(source), hint)
        return result

    return create_symbol


def _around_create_unbacked(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_unbacked_symint(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if _active is not None:
            with _never_disturb(_active):
                _active.created(str(result.node.expr), "", None)
        return result

    return create_unbacked_symint


def _around_defer_assert(original: Callable[..., Any]) -> Callable[..., Any]:
    def guard_or_defer_runtime_assert(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _active
        if recorder is None:
            return original(self, *args, **kwargs)
        before = {id(item) for item in _asserts(self)}
        result = original(self, *args, **kwargs)
        with _never_disturb(recorder):
            recorder.deferred(self, before)
        return result

    return guard_or_defer_runtime_assert


def _around_translator(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        recorder = _active
        if recorder is not None and self.f_code.co_filename == recorder.values.file:
            with _never_disturb(recorder):
                recorder.values.watch(self)
                recorder.shapes.watch(self)

    return init


def _around_root_translator(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        recorder = _active
        if recorder is None:
            original(self, *args, **kwargs)
            return
        with _never_disturb(recorder):
            variables = kwargs["f_locals"] if "f_locals" in kwargs else args[2]
            recorder.shapes.begin(recorder.frame, variables)
        original(self, *args, **kwargs)
        with _never_disturb(recorder):
            if self.f_code.co_filename == recorder.values.file:
                recorder.shapes.parameters(self)

    return init


def _asserts(shape_env: Any) -> list[Any]:
    deferred = getattr(shape_env, "deferred_runtime_asserts", {})
    return [item for items in deferred.values() for item in items]


def _source_of(shape_env: Any, symbol: Any) -> str:
    sources = getattr(shape_env, "var_to_sources", None) or getattr(shape_env, "source_to_var", {})
    found = sources.get(symbol, []) if isinstance(sources, dict) else []
    return source_name(found[0]) if found else ""


def source_name(source: Any) -> str:
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def causes_of(error: BaseException) -> tuple[Cause, ...]:
    """The break that started it first, then what happened while it was being handled."""
    chain: list[Cause] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 16:
        cause = getattr(link, "_fullgraph_cause", None) or _cause_behind(link)
        if cause is None:
            kind = getattr(link, "gb_type", None) or type(link).__name__
            text = str(getattr(link, "msg", link))
            cause = Cause(kind=str(kind), explanation=text)
        chain.append(cause)
        source = getattr(link, "_fullgraph_source", None)
        # A break made from an ordinary exception (a failing fake kernel) is explained by its
        # own words; only breaks made from breaks are a chain.
        link = source if hasattr(source, "_fullgraph_cause") else None
    return tuple(reversed(chain))


def _cause_behind(error: BaseException) -> Cause | None:
    """The cause of a break that was raised again, with the same words, as another exception."""
    behind = error.__context__
    if behind is None or getattr(behind, "msg", None) != getattr(error, "msg", ""):
        return None
    cause = getattr(behind, "_fullgraph_cause", None)
    return cause if isinstance(cause, Cause) else None


def _target_name(target: Any) -> str:
    name = getattr(target, "__name__", None) or str(target)
    module = getattr(target, "__module__", "") or ""
    if str(target).startswith("aten."):
        return str(target)
    return f"{module}.{name}" if module and module != "builtins" else str(name)


def _sizes(value: Any) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "dtype"):
        return None
    try:
        return tuple(str(size) for size in shape), tuple(_hint(size) for size in shape)
    except Exception:  # sizes of nested or sparse tensors may refuse to be read
        return None


def _hint(size: Any) -> int:
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return int(hint) if hint is not None else -1
