"""Hooks into Dynamo that pass its events to the active :class:`Recorder`.

:func:`install_hooks` wraps private names of torch once per process. The wrappers only call the
original until a recorder is active. The parent process installs them before it forks runs, so that
a run does not spend time on it.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable
from typing import Any, Literal

from .. import texts
from ..protocol.evidence import BreakOutcome, Resolution
from ..torch_internals import breaks, compiler_checks, frames, graphs, guards, recompiles, shapes
from ..torch_internals import variables as classes
from ..torch_internals.binding import Internal, WrapperFactory
from . import causes, nodes, stacks
from .recorder import Recorder, active_recorder, suppress_errors
from .recording import TracedFrame

# Bound at import, because traced code may replace the functions of `time`.
_clock = time.perf_counter


def _call_before(notify: Callable[..., None]) -> WrapperFactory:
    """Wrap a function so that ``notify(recorder, *arguments)`` is called before it."""

    def make_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            recorder = active_recorder()
            if recorder is not None:
                with suppress_errors(recorder):
                    notify(recorder, *args, **kwargs)
            return original(*args, **kwargs)

        return wrapper

    return make_wrapper


def _call_after(notify: Callable[..., None]) -> WrapperFactory:
    """Wrap a function so that ``notify(recorder, result, *arguments)`` is called after it
    returned."""

    def make_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            recorder = active_recorder()
            if recorder is not None:
                with suppress_errors(recorder):
                    notify(recorder, result, *args, **kwargs)
            return result

        return wrapper

    return make_wrapper


def _replace_call(replacement: Callable[..., Any]) -> WrapperFactory:
    """Wrap a function so that ``replacement(recorder, original, *arguments)`` is called instead."""

    def make_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            recorder = active_recorder()
            if recorder is None:
                return original(*args, **kwargs)
            return replacement(recorder, original, *args, **kwargs)

        return wrapper

    return make_wrapper


# -- breaks -----------------------------------------------------------------------------------


def _on_unsupported(
    recorder: Recorder, _none: None, error: Any, *_args: Any, **_kwargs: Any
) -> None:
    recorder.note_unsupported(error)
    error._fullgraph_cause, source = causes.read_unimplemented()
    error._fullgraph_source = source
    inner_stack = getattr(source, "_fullgraph_stack", None)
    if inner_stack is not None:
        error._fullgraph_stack = inner_stack
    elif summary := getattr(source, "real_stack", None):
        error._fullgraph_stack = stacks.stack_of_summary(summary)
    else:
        error._fullgraph_stack = stacks.stack_of_translator(frames.current_translator())


def _on_break_logged(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
    report = breaks.parse_report(args, kwargs)
    translator = frames.current_translator() if report.translator is None else report.translator
    error = report.error
    if error is None:
        error = causes.break_from_text(report.reason)
    traced = getattr(error, "_fullgraph_stack", None) or stacks.stack_of_translator(translator)
    recorder.record_break(error, _break_outcome(report.reason), traced)


def _on_speculation_failed(
    recorder: Recorder, speculation: Any, *_args: Any, **_kwargs: Any
) -> None:
    if breaks.restarts_before_break(speculation):
        recorder.record_unresumable_break()


def _on_message_formatted(
    recorder: Recorder, text: str, gb_type: str, context: str, explanation: str, hints: Any
) -> None:
    causes.remember_cause(str(text), gb_type, context, explanation, hints)


def _break_outcome(reason: str) -> BreakOutcome:
    if reason.startswith("Failed to handle graph break gracefully"):
        return "frame-skipped"
    if reason.startswith("Encountered graph break that we cannot resume from"):
        return "rest-skipped"
    return "resumed"


def _on_frame_skipped(recorder: Recorder, reason: str, frame: Any) -> None:
    recorder.record_skip(reason, frame.f_code)


def _on_summary_made(_recorder: Recorder, summary: Any, translator: Any) -> None:
    frames.add_columns(summary, translator)


def _on_innermost_summary_made(_recorder: Recorder, summary: Any, _context: Any) -> None:
    frames.add_columns(summary, frames.current_translator())


def _on_skip_raised(
    recorder: Recorder, _none: None, error: BaseException, *_args: Any, **_kwargs: Any
) -> None:
    recorder.note_skip_reason(texts.error_message(error))


def _on_frame_converted(
    recorder: Recorder, result: Any, _converter: Any, frame: Any, *_args: Any, **_kwargs: Any
) -> None:
    if not frames.is_compiled(result):
        recorder.record_skip("", frame.f_code)


# -- frames -----------------------------------------------------------------------------------


def _around_compile(
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
        code=recorder.code_number(code),
    )
    start = _clock()

    def leave(outcome: Literal["compiled", "skipped", "failed"], reason: str) -> None:
        recorder.leave_frame(frame(outcome, reason, seconds=_clock() - start))

    try:
        result = original(code, *args, **kwargs)
    except BaseException as error:
        with suppress_errors(recorder):
            recorder.record_limit_error(error)
        leave("failed", texts.type_and_message(error))
        raise
    reason = getattr(result, "skip_reason", None)
    compiled = getattr(result, "guarded_code", None) is not None
    leave("compiled" if compiled else "skipped", reason or "")
    return result


def _on_recompile(
    recorder: Recorder, reasons: Any, cache_entries: Any, frame: Any, *_args: Any, **kwargs: Any
) -> None:
    if not recompiles.is_module_check(kwargs):
        recorder.record_recompile(frame, recompiles.cache_entries(cache_entries), reasons)


def _on_recompile_limit(
    recorder: Recorder, result: tuple[bool, str], *_args: Any, **_kwargs: Any
) -> None:
    exceeded, setting = result
    if exceeded:
        recorder.record_recompile_limit(setting)


# -- graphs -----------------------------------------------------------------------------------


def _on_node_created(
    recorder: Recorder, node: Any, tracer: Any, *_args: Any, **_kwargs: Any
) -> None:
    nodes.store_location(node, tracer.output_graph)


def _around_backend_call(
    recorder: Recorder, original: Any, output: Any, module: Any, *args: Any, **kwargs: Any
) -> Any:
    with suppress_errors(recorder):
        recorder.record_graph(output, module)
        recorder.guards.record_writes(recorder.frame, output)
    compiled = original(output, module, *args, **kwargs)
    return recorder.guards.wrap_with_counter(recorder.frame, compiled)


def _around_compliance_check(
    recorder: Recorder, original: Any, output: Any, *args: Any, **kwargs: Any
) -> Any:
    target = kwargs["target"] if "target" in kwargs else (*args, None, None)[1]
    # The sets do not show which call added an operator. So use empty sets during this call.
    bad = getattr(output, "non_compliant_ops", None)
    good = getattr(output, "compliant_custom_ops", None)
    is_operator = isinstance(target, (graphs.OpOverload, graphs.OpOverloadPacket))
    if not is_operator or bad is None or good is None:
        return original(output, *args, **kwargs)
    output.non_compliant_ops, output.compliant_custom_ops = type(bad)(), type(good)()
    try:
        return original(output, *args, **kwargs)
    finally:
        new_bad, new_good = output.non_compliant_ops, output.compliant_custom_ops
        output.non_compliant_ops, output.compliant_custom_ops = bad, good
        bad.update(new_bad)
        good.update(new_good)
        with suppress_errors(recorder):
            for compliant, ops in ((False, new_bad), (True, new_good)):
                for op in ops:
                    recorder.record_custom_op(
                        op, compliant, _overload_resolution(target), output.current_tx
                    )


def _overload_resolution(target: Any) -> Resolution:
    if isinstance(target, graphs.OpOverload):
        return "overload"
    return "single overload" if len(target.overloads()) == 1 else "resolved packet"


def _on_compiler_check(
    recorder: Recorder, result: Any, variable: Any, *_args: Any, **_kwargs: Any
) -> None:
    name = compiler_checks.name_of(getattr(variable, "value", None))
    if name:
        recorder.record_compiler_check(name, getattr(result, "value", None) is True)


# -- guards -----------------------------------------------------------------------------------


def _around_tree_construction(
    recorder: Recorder, original: Any, manager: Any, code: Any, *args: Any, **kwargs: Any
) -> None:
    with recorder.guards.open_tree():
        original(manager, code, *args, **kwargs)
        with suppress_errors(recorder):
            recorder.record_guards(code, guards.find_guard_tree(manager))


def _on_guard_added(
    _recorder: Recorder, _none: None, _guards: Any, guard: Any, *_args: Any, **_kwargs: Any
) -> None:
    guards.add_stack(guard)


def _on_guard_formatted(
    recorder: Recorder, texts: Any, code_parts: Any, guard: Any, *_args: Any, **_kwargs: Any
) -> None:
    recorder.guards.note_request(code_parts, guard, texts)


def _around_get_location(recorder: Recorder, original: Any, *args: Any, **kwargs: Any) -> Any:
    location = original(*args, **kwargs)
    numbered = None
    with suppress_errors(recorder):
        numbered = recorder.guards.note_location(location, recorder.current_stack())
    return location if numbered is None else numbered


# -- sizes ------------------------------------------------------------------------------------


def _around_set_replacement(
    recorder: Recorder, original: Any, shape_env: Any, symbol: Any, *args: Any, **kwargs: Any
) -> Any:
    before = shape_env.replacements.get(symbol)
    result = original(shape_env, symbol, *args, **kwargs)
    after = shape_env.replacements.get(symbol)
    if after is None or after == before:
        return result
    if not after.is_number:
        with suppress_errors(recorder):
            recorder.record_equality(symbol, after)
    elif before is None or not before.is_number:
        with suppress_errors(recorder):
            reason = args[1] if len(args) > 1 else kwargs.get("msg", "")
            recorder.record_specialization(shape_env, symbol, str(after), str(reason))
    return result


def _on_symbol_created(
    recorder: Recorder, symbol: Any, _env: Any, val: Any, source: Any, *_args: Any, **_kwargs: Any
) -> None:
    if getattr(symbol, "is_Symbol", False):
        hint = val if isinstance(val, int) else None
        recorder.record_symbol(str(symbol), shapes.name_of_source(source), hint)


def _on_unbacked_created(recorder: Recorder, size: Any, *_args: Any, **_kwargs: Any) -> None:
    recorder.record_symbol(str(size.node.expr), "", None)


def _around_defer_assert(
    recorder: Recorder, original: Any, shape_env: Any, *args: Any, **kwargs: Any
) -> Any:
    before = {id(item) for item in shapes.deferred_asserts(shape_env)}
    result = original(shape_env, *args, **kwargs)
    with suppress_errors(recorder):
        recorder.record_deferred_asserts(shape_env, before)
    return result


# -- values -----------------------------------------------------------------------------------


def _on_interpreter_created(
    recorder: Recorder, _none: None, translator: Any, *_args: Any, **_kwargs: Any
) -> None:
    recorder.attach_interpreter(translator)


def _around_root_interpreter(
    recorder: Recorder, original: Any, translator: Any, *args: Any, **kwargs: Any
) -> None:
    with suppress_errors(recorder):
        variables = kwargs["f_locals"] if "f_locals" in kwargs else args[2]
        recorder.shapes.begin_frame(recorder.frame, variables)
    original(translator, *args, **kwargs)
    with suppress_errors(recorder):
        recorder.record_frame_parameters(translator)


_HOOKS: tuple[tuple[Internal, tuple[WrapperFactory, ...]], ...] = (
    (breaks.UNSUPPORTED, (_call_after(_on_unsupported),)),
    (breaks.USER_ERROR, (_call_after(_on_unsupported),)),
    (breaks.LOG_BREAK, (_call_before(_on_break_logged), _call_before(_on_break_logged))),
    (
        breaks.FORMAT_MESSAGE,
        (_call_after(_on_message_formatted), _call_after(_on_message_formatted)),
    ),
    (frames.COMPILE, (_replace_call(_around_compile),)),
    (frames.SKIP_FRAME, (_call_after(_on_skip_raised),)),
    (frames.SKIP, (_call_before(_on_frame_skipped), _call_after(_on_frame_converted))),
    (frames.SUMMARY, (_call_after(_on_summary_made),)),
    (frames.INNERMOST_SUMMARY, (_call_after(_on_innermost_summary_made),)),
    (recompiles.REASONS, (_call_after(_on_recompile),)),
    (recompiles.LIMIT, (_call_after(_on_recompile_limit),)),
    (graphs.COMPLIANCE, (_replace_call(_around_compliance_check),)),
    (compiler_checks.CALL, (_call_after(_on_compiler_check),)),
    (graphs.CREATE_NODE, (_call_after(_on_node_created),)),
    (graphs.CALL_COMPILER, (_replace_call(_around_backend_call),)),
    (guards.BUILD_TREE, (_replace_call(_around_tree_construction),)),
    (guards.FORMAT_GUARD, (_call_after(_on_guard_formatted),)),
    (shapes.GET_LOCATION, (_replace_call(_around_get_location),)),
    (shapes.REPLACEMENT, (_replace_call(_around_set_replacement),)),
    (shapes.CREATE_SYMBOL, (_call_after(_on_symbol_created),)),
    (shapes.CREATE_UNBACKED, (_call_after(_on_unbacked_created),)),
    (shapes.DEFER_ASSERT, (_replace_call(_around_defer_assert),)),
)
"""Private names of torch with their wrappers: one wrapper for each spelling of the name in a torch
release."""


def install_hooks() -> None:
    """Install all wrappers for names that the installed torch has. Call it once per process."""
    for internal, wrappers in _HOOKS:
        spelling = internal.find_spelling()
        if spelling is not None:
            internal.wrap(wrappers[internal.spellings.index(spelling)])
    frames.LINE_TABLE.wrap(frames.fix_line_table_writer)
    if breaks.leaves_breaks_unreported():
        breaks.RESTART_ANALYSIS.wrap(_call_before(_on_speculation_failed))
    if guards.are_stacks_missing():
        guards.ADD_GUARD.wrap(_call_after(_on_guard_added))
    # Record values only if all classes exist: partial knowledge would lead to wrong reports.
    if all(name.get() is not None for name in (*classes.VALUES, frames.OPCODES)):
        frames.TRANSLATOR.wrap(_call_after(_on_interpreter_created))
        if all(name.get() is not None for name in classes.SHAPES):
            frames.ROOT_TRANSLATOR.wrap(_replace_call(_around_root_interpreter))
