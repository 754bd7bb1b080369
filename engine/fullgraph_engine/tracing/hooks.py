"""Where Dynamo is listened to.

:func:`install` wraps the private names of torch once per process; the wrappers do nothing until a
:class:`Recorder` is active. They are installed in the warm parent, so a run pays nothing.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable
from typing import Any, Literal

from .. import texts
from ..protocol.evidence import BreakOutcome, Resolution
from ..torch_internals import breaks, frames, graphs, guards, recompiles, shapes
from ..torch_internals import variables as classes
from ..torch_internals.binding import Around, Internal
from . import causes, nodes, stacks
from .recorder import Recorder, active, undisturbed
from .recording import TracedFrame

# Bound now: traced code may replace the functions of `time`.
_clock = time.perf_counter


def _before(tell: Callable[..., None]) -> Around:
    """Have ``tell(recorder, *arguments)`` called before the original."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*args: Any, **kwargs: Any) -> Any:
            recorder = active()
            if recorder is not None:
                with undisturbed(recorder):
                    tell(recorder, *args, **kwargs)
            return original(*args, **kwargs)

        return heard

    return around


def _behind(tell: Callable[..., None]) -> Around:
    """Have ``tell(recorder, result, *arguments)`` called when the original has returned."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            recorder = active()
            if recorder is not None:
                with undisturbed(recorder):
                    tell(recorder, result, *args, **kwargs)
            return result

        return heard

    return around


def _with(call: Callable[..., Any]) -> Around:
    """Have ``call(recorder, original, *arguments)`` called in place of the original."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*args: Any, **kwargs: Any) -> Any:
            recorder = active()
            if recorder is None:
                return original(*args, **kwargs)
            return call(recorder, original, *args, **kwargs)

        return heard

    return around


# -- breaks -----------------------------------------------------------------------------------


def _unsupported(recorder: Recorder, _none: None, error: Any, *_args: Any, **_kwargs: Any) -> None:
    recorder.saw_unsupported(error)
    error._fullgraph_cause, source = causes.raised_by_unimplemented()
    error._fullgraph_source = source
    past = getattr(source, "_fullgraph_stack", None)
    if past is not None:
        error._fullgraph_stack = past
    elif summary := getattr(source, "real_stack", None):
        error._fullgraph_stack = stacks.of_summary(summary)
    else:
        error._fullgraph_stack = stacks.of_translator(frames.translator())


def _log_break(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
    told = breaks.reported(args, kwargs)
    translator = frames.translator() if told.translator is None else told.translator
    error = told.error
    if error is None:
        error = causes.of_words(told.reason)
    traced = getattr(error, "_fullgraph_stack", None) or stacks.of_translator(translator)
    recorder.broke(error, _outcome(told.reason), traced)


def _goes_back(recorder: Recorder, speculation: Any, *_args: Any, **_kwargs: Any) -> None:
    if breaks.goes_back(speculation):
        recorder.broke_unreported()


def _formatted(
    recorder: Recorder, words: str, gb_type: str, context: str, explanation: str, hints: Any
) -> None:
    causes.remember_words(str(words), gb_type, context, explanation, hints)


def _outcome(reason: str) -> BreakOutcome:
    if reason.startswith("Failed to handle graph break gracefully"):
        return "frame-skipped"
    if reason.startswith("Encountered graph break that we cannot resume from"):
        return "rest-skipped"
    return "resumed"


def _skipped(recorder: Recorder, reason: str, frame: Any) -> None:
    recorder.skipped(reason, frame.f_code)


def _summarized(_recorder: Recorder, summary: Any, translator: Any) -> None:
    frames.add_columns(summary, translator)


def _summarized_innermost(_recorder: Recorder, summary: Any, _context: Any) -> None:
    frames.add_columns(summary, frames.translator())


def _raised_skip(
    recorder: Recorder, _none: None, error: BaseException, *_args: Any, **_kwargs: Any
) -> None:
    recorder.saw_skip(texts.error_message(error))


def _converted(
    recorder: Recorder, result: Any, _converter: Any, frame: Any, *_args: Any, **_kwargs: Any
) -> None:
    if not frames.has_code(result):
        recorder.skipped("", frame.f_code)


# -- frames -----------------------------------------------------------------------------------


def _compile(
    recorder: Recorder, original: Any, code: types.CodeType, *args: Any, **kwargs: Any
) -> Any:
    name = frames.original_name(code.co_name)
    frame = functools.partial(
        TracedFrame,
        recorder.enter_frame(code),
        str(kwargs.get("compile_id", "")),
        name,
        code.co_filename,
        code.co_firstlineno - 1,
        resumed=name != code.co_name,
        code=recorder.number_of(code),
    )
    started = _clock()

    def leave(outcome: Literal["compiled", "skipped", "failed"], reason: str) -> None:
        recorder.leave_frame(frame(outcome, reason, seconds=_clock() - started))

    try:
        result = original(code, *args, **kwargs)
    except BaseException as error:
        leave("failed", texts.type_and_message(error))
        raise
    reason = getattr(result, "skip_reason", None)
    compiled = getattr(result, "guarded_code", None) is not None
    leave("compiled" if compiled else "skipped", reason or "")
    return result


def _recompiled(
    recorder: Recorder, reasons: Any, cache_entries: Any, frame: Any, *_args: Any, **kwargs: Any
) -> None:
    if not recompiles.is_about_modules(kwargs):
        recorder.recompiled(frame, recompiles.entries(cache_entries), reasons)


def _limited(recorder: Recorder, answer: tuple[bool, str], *_args: Any, **_kwargs: Any) -> None:
    exceeded, setting = answer
    if exceeded:
        recorder.reached_limit(setting)


# -- graphs -----------------------------------------------------------------------------------


def _created_node(recorder: Recorder, node: Any, tracer: Any, *_args: Any, **_kwargs: Any) -> None:
    nodes.locate(node, tracer.output_graph)


def _call_compiler(
    recorder: Recorder, original: Any, output: Any, module: Any, *args: Any, **kwargs: Any
) -> Any:
    with undisturbed(recorder):
        recorder.captured(output, module)
        recorder.guards.captured(recorder.frame, output)
    compiled = original(output, module, *args, **kwargs)
    return recorder.guards.entered(recorder.frame, compiled)


def _check_compliance(
    recorder: Recorder, original: Any, output: Any, *args: Any, **kwargs: Any
) -> Any:
    target = kwargs["target"] if "target" in kwargs else (*args, None, None)[1]
    # The sets keep each operator once and forget where it was called: look at what this one
    # call adds to empty ones.
    bad = getattr(output, "non_compliant_ops", None)
    good = getattr(output, "compliant_custom_ops", None)
    an_operator = isinstance(target, (graphs.OpOverload, graphs.OpOverloadPacket))
    if not an_operator or bad is None or good is None:
        return original(output, *args, **kwargs)
    output.non_compliant_ops, output.compliant_custom_ops = type(bad)(), type(good)()
    try:
        return original(output, *args, **kwargs)
    finally:
        new_bad, new_good = output.non_compliant_ops, output.compliant_custom_ops
        output.non_compliant_ops, output.compliant_custom_ops = bad, good
        bad.update(new_bad)
        good.update(new_good)
        with undisturbed(recorder):
            for compliant, ops in ((False, new_bad), (True, new_good)):
                for op in ops:
                    recorder.called_custom(op, compliant, _resolution(target), output.current_tx)


def _resolution(target: Any) -> Resolution:
    if isinstance(target, graphs.OpOverload):
        return "overload"
    return "single overload" if len(target.overloads()) == 1 else "resolved packet"


# -- guards -----------------------------------------------------------------------------------


def _build_guards(
    recorder: Recorder, original: Any, manager: Any, code: Any, *args: Any, **kwargs: Any
) -> None:
    with recorder.guards.building():
        original(manager, code, *args, **kwargs)
        with undisturbed(recorder):
            recorder.guarded(code, guards.manager_of(manager))


def _added_guard(
    _recorder: Recorder, _none: None, _guards: Any, guard: Any, *_args: Any, **_kwargs: Any
) -> None:
    guards.add_stack(guard)


def _spoke(
    recorder: Recorder, words: Any, code_parts: Any, guard: Any, *_args: Any, **_kwargs: Any
) -> None:
    recorder.guards.spoken(code_parts, guard, words)


def _place(recorder: Recorder, original: Any, *args: Any, **kwargs: Any) -> Any:
    place = original(*args, **kwargs)
    placed = None
    with undisturbed(recorder):
        placed = recorder.guards.placed(place, recorder.here())
    return place if placed is None else placed


# -- sizes ------------------------------------------------------------------------------------


def _set_replacement(
    recorder: Recorder, original: Any, shape_env: Any, symbol: Any, *args: Any, **kwargs: Any
) -> Any:
    before = shape_env.replacements.get(symbol)
    result = original(shape_env, symbol, *args, **kwargs)
    after = shape_env.replacements.get(symbol)
    if after is None or after == before:
        return result
    if not after.is_number:
        with undisturbed(recorder):
            recorder.equated(symbol, after)
    elif before is None or not before.is_number:
        with undisturbed(recorder):
            reason = args[1] if len(args) > 1 else kwargs.get("msg", "")
            recorder.specialized(shape_env, symbol, str(after), str(reason))
    return result


def _created_symbol(
    recorder: Recorder, symbol: Any, _env: Any, val: Any, source: Any, *_args: Any, **_kwargs: Any
) -> None:
    if getattr(symbol, "is_Symbol", False):
        hint = val if isinstance(val, int) else None
        recorder.created(str(symbol), shapes.name_of_source(source), hint)


def _created_unbacked(recorder: Recorder, size: Any, *_args: Any, **_kwargs: Any) -> None:
    recorder.created(str(size.node.expr), "", None)


def _defer_assert(
    recorder: Recorder, original: Any, shape_env: Any, *args: Any, **kwargs: Any
) -> Any:
    before = {id(item) for item in shapes.deferred_asserts(shape_env)}
    result = original(shape_env, *args, **kwargs)
    with undisturbed(recorder):
        recorder.deferred(shape_env, before)
    return result


# -- values -----------------------------------------------------------------------------------


def _began(recorder: Recorder, _none: None, translator: Any, *_args: Any, **_kwargs: Any) -> None:
    recorder.began(translator)


def _begin_frame(
    recorder: Recorder, original: Any, translator: Any, *args: Any, **kwargs: Any
) -> None:
    with undisturbed(recorder):
        variables = kwargs["f_locals"] if "f_locals" in kwargs else args[2]
        recorder.shapes.begin(recorder.frame, variables)
    original(translator, *args, **kwargs)
    with undisturbed(recorder):
        recorder.began_frame(translator)


_HOOKS: tuple[tuple[Internal, tuple[Around, ...]], ...] = (
    (breaks.UNSUPPORTED, (_behind(_unsupported),)),
    (breaks.USER_ERROR, (_behind(_unsupported),)),
    (breaks.LOG, (_before(_log_break), _before(_log_break))),
    (breaks.WORDS, (_behind(_formatted), _behind(_formatted))),
    (frames.COMPILE, (_with(_compile),)),
    (frames.SKIP_FRAME, (_behind(_raised_skip),)),
    (frames.SKIP, (_before(_skipped), _behind(_converted))),
    (frames.SUMMARY, (_behind(_summarized),)),
    (frames.INNERMOST_SUMMARY, (_behind(_summarized_innermost),)),
    (recompiles.REASONS, (_behind(_recompiled),)),
    (recompiles.LIMIT, (_behind(_limited),)),
    (graphs.COMPLIANCE, (_with(_check_compliance),)),
    (graphs.CREATE_NODE, (_behind(_created_node),)),
    (graphs.CALL_COMPILER, (_with(_call_compiler),)),
    (guards.BUILD, (_with(_build_guards),)),
    (guards.WORDS, (_behind(_spoke),)),
    (shapes.PLACE, (_with(_place),)),
    (shapes.REPLACEMENT, (_with(_set_replacement),)),
    (shapes.CREATE_SYMBOL, (_behind(_created_symbol),)),
    (shapes.CREATE_UNBACKED, (_behind(_created_unbacked),)),
    (shapes.DEFER_ASSERT, (_with(_defer_assert),)),
)
"""Each with a wrapper for each of its spellings."""


def install() -> None:
    """Wrap what this torch has of them. Call it once per process."""
    for internal, wrappers in _HOOKS:
        spelling = internal.spelling()
        if spelling is not None:
            internal.wrap(wrappers[internal.spellings.index(spelling)])
    frames.LINE_TABLE.wrap(frames.counting_lines_once)
    if breaks.hides_some():
        breaks.UNREPORTED.wrap(_before(_goes_back))
    if guards.lack_stacks():
        guards.ADD.wrap(_behind(_added_guard))
    # Of values either all is said, or nothing.
    if all(one.get() is not None for one in (*classes.VALUES, frames.OPCODES)):
        frames.TRANSLATOR.wrap(_behind(_began))
        if all(one.get() is not None for one in classes.SHAPES):
            frames.ROOT_TRANSLATOR.wrap(_with(_begin_frame))
