"""Execute the top-level statements of a module one at a time, and continue with the next one after
a failure."""

from __future__ import annotations
import __future__

import ast
import builtins
import os
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from .. import devices, texts
from ..placeholder import Placeholder, Unavailable, error_of_use, find_unavailable
from ..protocol import Finding, Frame, Position, Range, node_range, place_words
from . import blackbox, frames, import_failures, import_hook, sandbox, syntax
from .import_failures import TIME_USED_UP, ModuleTimeIsUp, failure_reason, related_frames


@dataclass
class Clock:
    """Flags that the executor of statements shares with the signal handler of the time limit.

    ``executing``: user code is executing, so the handler may interrupt it. ``over``: the time limit
    was reached.
    """

    executing: bool = False
    over: bool = False
    interrupted: bool = False
    """True if the signal of the time limit interrupted the current statement."""


@dataclass
class Execution:
    """An executor of a file's top-level statements, one at a time, which continues after a failure.

    ``unavailable`` maps each name that a failed statement left undefined to the reason.
    """

    tree: ast.Module
    path: str
    lines: list[str]
    box: int
    emit: Callable[[Finding], None]
    fake_mode: Callable[[], AbstractContextManager[Any]]
    skip: dict[int, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    unavailable: dict[str, Unavailable] = field(default_factory=dict)
    refused: tuple[Range, ...] = ()
    """Source ranges of calls that torch will reject, found before the execution. Their exceptions
    are not reported again."""
    guard: sandbox.Sandbox | None = None
    """Sandbox in which the statements are executed, to explain failures by the operations that it
    denied; None without a sandbox."""
    beside: str = ""
    """Folder to append to ``sys.path`` while the file is executed, such as the file's own; empty
    for none."""
    failures: int = 0
    late: int | None = None
    """Index of the statement that exceeded the time limit, in this or an earlier process; None if
    none did."""
    _roots: set[object] = field(default_factory=set)
    """Original causes of failed imports that were already reported, each to be reported once."""
    _open_import: Unavailable | None = None
    """Failed statement ``from x import *``; names that the file later lacks may come from that
    module. None if no such statement failed."""

    def __post_init__(self) -> None:
        self._flags = syntax.future_flags(self.tree)

    def switch_text(
        self, tree: ast.Module, lines: list[str], box: int, refused: tuple[Range, ...]
    ) -> None:
        """Continue with a newer version of the file, whose first statements are the ones executed
        so far.

        ``box`` is the descriptor of the file for crash records. ``refused`` are ranges of calls
        that torch will reject.
        """
        self.tree, self.lines, self.box, self.refused = tree, lines, box, refused
        self._flags = syntax.future_flags(tree)

    def run_statements(self, module: types.ModuleType, start: int, stop: int) -> None:
        """Execute the top-level statements with indices ``start`` to ``stop`` (exclusive) in the
        namespace of ``module``."""
        namespace = module.__dict__
        # Otherwise exec() would insert the engine's own builtins.
        namespace["__builtins__"] = builtins
        if start == 0:
            namespace["__doc__"] = ast.get_docstring(self.tree, clean=False)
        for index in range(start, stop):
            node = self.tree.body[index]
            if index in self.skip:
                # The statement ended an earlier process, and that failure is already reported.
                self._bind_placeholders(node, namespace, node.lineno - 1, self.skip[index])
                self.clock.over |= index == self.late
                continue
            if self.clock.over and not syntax.is_definition(node):
                self._bind_placeholders(node, namespace, node.lineno - 1, TIME_USED_UP)
                continue
            blackbox.at_statement(self.box, index, node.lineno - 1)
            if self.guard is not None:
                self.guard.refusal = None
            self._run_statement(node, namespace)
            if self.clock.over and self.late is None:
                self.late = index

    # -- one statement ------------------------------------------------------------------------

    def _run_statement(self, node: ast.stmt, namespace: dict[str, Any]) -> None:
        self.clock.interrupted = False
        error = self._try_statement(node, namespace)
        if self.clock.interrupted and not isinstance(error, ModuleTimeIsUp):
            error = ModuleTimeIsUp()  # the code caught the exception, or a finalizer swallowed it
        if error is None:
            self._mark_bound(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._bind_imports(node, error, namespace)
        else:
            self._report_failure(node, error, namespace)

    def _try_statement(self, node: ast.stmt, namespace: dict[str, Any]) -> BaseException | None:
        """Execute a statement; return the first exception that it raised, or None.

        If it raises, it is executed again with lazy annotations or fake tensors where these may
        help.
        """
        error = self._execute_statement(node, namespace, self._flags)
        if error is None:
            return None
        if self._is_beside(node, error):
            sys.path.append(self.beside)
            error = self._execute_statement(node, namespace, self._flags)
            if error is None:
                return None
        if find_unavailable(error) and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            # Without evaluating annotations, a definition works even if its annotations contain a
            # missing name.
            if self._execute_statement(node, namespace, self._flags | _LAZY_ANNOTATIONS) is None:
                return None
        elif _wants_fake(error):
            # If a GPU or memory is missing, execute the statement with fake tensors: tracing needs
            # only their shapes.
            try:
                with self.fake_mode():
                    if self._execute_statement(node, namespace, self._flags) is None:
                        return None
            except Exception:  # a broken torch may fail to enter the mode
                return error
        return error

    def _execute_statement(
        self, node: ast.stmt, namespace: dict[str, Any], flags: int
    ) -> BaseException | None:
        before = self.clock.executing
        try:
            code = compile(
                ast.Module([node], []), self.path, "exec", flags=flags, dont_inherit=True
            )
            self.clock.executing = True
            exec(code, namespace)
        except BaseException as error:
            return error
        finally:
            self.clock.executing = before
        return None

    # -- failures -----------------------------------------------------------------------------

    def _bind_imports(
        self, node: ast.Import | ast.ImportFrom, error: BaseException, namespace: dict[str, Any]
    ) -> None:
        """Handle a failed import statement: import each of its names separately, and bind the names
        that exist.

        ``error`` is the exception of the whole statement. One finding per cause is reported for the
        other names.
        """
        for alias in node.names:
            single = syntax.one_alias(node, alias)
            own = (
                self._execute_statement(single, namespace, self._flags)
                if len(node.names) > 1
                else error
            )
            if own is None:
                self._mark_bound(single)
                continue
            cause = self._spreading_failure(own)
            line, why = node.lineno - 1, failure_reason(import_failures.root_cause(own))
            if cause is not None:
                line, why = cause.line, cause.reason
            self._bind_placeholders(single, namespace, line, why)
            if isinstance(own, ModuleTimeIsUp):
                self._report_failure(node, own, namespace)
                return
            if cause is None:
                self._report_import(node, alias, own)

    def _report_import(
        self, node: ast.Import | ast.ImportFrom, alias: ast.alias, error: BaseException
    ) -> None:
        same = import_failures.same_root(error, self.path)
        if same in self._roots:
            return
        self._roots.add(same)
        self.failures += 1
        if isinstance(node, ast.Import):
            name, where = alias.name, node_range(alias)
        else:
            name = "." * node.level + (node.module or "")
            lacks_name = (
                type(error) is ImportError and len(frames.of_traceback(error.__traceback__)) <= 1
            )
            if lacks_name:
                where = node_range(alias)
                name = f"{name}.{alias.name}" if node.module else name + alias.name
            else:
                where = syntax.module_range(node, self.lines)
        finding = import_failures.statement_finding(name, error, where, self.path)
        self._emit_failure(finding, import_failures.root_cause(error))

    def _is_beside(self, node: ast.stmt, error: BaseException) -> bool:
        """Whether an import failed only because the file imports a neighboring file by its bare
        name.

        Scripts may do so, but this file is inside a package.
        """
        if not self.beside or self.beside in sys.path:
            return False
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            return False
        if not isinstance(error, ModuleNotFoundError) or not error.name:
            return False
        if error.name not in [name.partition(".")[0] for name in names]:
            return False
        near = os.path.join(self.beside, error.name)  # noqa: PTH118
        return os.path.isdir(near) or os.path.isfile(f"{near}.py")  # noqa: PTH112, PTH113

    def _report_failure(
        self, node: ast.stmt, error: BaseException, namespace: dict[str, Any]
    ) -> None:
        self.failures += 1
        cause = self._earlier_failure(node, error)
        if cause is not None:
            # The original failure was reported at its own statement. Only mark the names of this
            # statement as unavailable.
            self._bind_placeholders(node, namespace, cause.line, cause.reason)
            return
        why = failure_reason(error)
        stack = frames.of_traceback(error.__traceback__)
        here = frames.innermost_frame(stack, self.path)
        line = here.line if here is not None else node.lineno - 1
        where = syntax.head_of(node, self.lines)
        if here is not None:
            where = frames.range_of(here, self.lines)
        elif isinstance(error, SyntaxError) and error.filename == self.path:
            # The text parses but does not compile.
            where, why = _place_of(error, self.lines), f"SyntaxError: {error.msg}"
            line = where.start.line
        self._bind_placeholders(node, namespace, line, why)
        if here is not None and here is not stack[-1] and self._is_refused(here, node):
            return
        code = "trace/eager-error"
        notes: tuple[str, ...] = ()
        if isinstance(error, ModuleTimeIsUp):
            self.clock.over = True
            code = "trace/timeout"
            message = "This statement reached the time limit for executing the file"
            notes = ("Below, fullgraph executed only statements that define or import something.",)
        elif isinstance(error, SystemExit):
            message = f"The file exits here: {why}"
            notes = ("fullgraph ignored the exit and continued with the next statement.",)
        elif self._is_refusal(error):
            code = "trace/sandboxed"
            message = f"Refused while the file was executed: {why}"
        elif _wants_gpu(error) or _asks_for_gpu(node):
            code = "trace/sandboxed"
            message = f"fullgraph runs code without a GPU, and this statement fails: {why}"
        elif texts.is_out_of_memory(error):
            message = f"Out of memory while the file was executed: {why}"
        else:
            message = f"This statement fails: {why}"
        finding = Finding(
            code=code,
            message=message,
            range=where,
            stack=stack,
            related=related_frames(stack, self.path),
            notes=notes,
            mode="real",
            identity=f"{code}@{place_words(where)}",
        )
        self._emit_failure(finding, error)

    def _emit_failure(self, finding: Finding, error: BaseException) -> None:
        """Report a failed statement.

        If the sandbox denied an operation shortly before, add the operation as the explanation.
        """
        if self.guard is not None and not isinstance(error, (ModuleTimeIsUp, SystemExit)):
            finding = self.guard.explain_refusal(finding, failure_reason(error))
        self.emit(finding)

    def _is_refusal(self, error: BaseException) -> bool:
        explains = self.guard is not None and self.guard.is_explained(failure_reason(error))
        return explains or _is_denied_natively(error)

    def _is_refused(self, here: Frame, node: ast.stmt) -> bool:
        """Whether the exception at the frame ``here`` comes from a call that torch rejects, which
        was already reported before the execution."""
        place = frames.range_of(here, self.lines)
        for call in self.refused:
            within = call.start.line <= here.line <= call.end.line
            if here.end_byte >= 0:
                if within and _contains_range(call, place):
                    return True
                continue
            # Without column numbers, compare line numbers. An exception in a decorator has the line
            # of the decorated function.
            decorates = call.end.line < node.lineno - 1 == here.line
            if here.function != "<module>":
                if within:
                    return True
            elif (within or decorates) and _contains_range(_decorated_range(node), call):
                return True
        return False

    def _earlier_failure(self, node: ast.stmt, error: BaseException) -> Unavailable | None:
        """Return the earlier failed statement that caused ``error``; None if this statement is the
        original cause."""
        found = self._spreading_failure(error)
        if found is not None:
            return found
        if isinstance(error, NameError) and self._open_import is not None:
            return self._open_import
        if isinstance(error, (TypeError, AttributeError, NameError)):
            for name in syntax.used_names(node) & self.unavailable.keys():
                return self.unavailable[name]
        return None

    @staticmethod
    def _spreading_failure(error: BaseException) -> Unavailable | None:
        """Return the earlier failed import or statement that caused an exception; None if an
        exception has another cause."""
        found = find_unavailable(error)
        if found is not None:
            return found
        package = import_hook.failed_package(import_failures.root_cause(error))
        if package is None:
            return None
        why = f"importing the package `{package.__name__}` failed: {package.reason}"
        return Unavailable(package.__name__, package.line, why)

    # -- names --------------------------------------------------------------------------------

    def _mark_bound(self, node: ast.stmt) -> None:
        for name in syntax.bound_names(node) if self.unavailable else ():
            self.unavailable.pop(name, None)

    def _bind_placeholders(
        self,
        node: ast.stmt,
        namespace: dict[str, Any],
        line: int,
        reason: str,
    ) -> None:
        """Bind the names that a failed statement would have bound to placeholders, which raise
        ``reason`` when user code uses them."""
        star = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
        if star:
            self._open_import = Unavailable("*", line, reason)
        for name in syntax.bound_names(node):
            if name in namespace and (syntax.is_compound(node) or _is_deeper(node)):
                continue
            stand_in = Placeholder(name, line, reason)
            namespace[name] = stand_in
            self.unavailable[name] = error_of_use(stand_in)


def _place_of(error: SyntaxError, lines: list[str]) -> Range:
    """Return the source range of a syntax error, with columns in bytes; the whole line if the
    columns are unknown."""
    line = (error.lineno or 1) - 1
    whole = frames.line_range(line, lines)
    if not error.offset:
        return whole
    end = whole.end
    if error.end_lineno and error.end_offset:
        end = Position(error.end_lineno - 1, error.end_offset - 1)
    return Range(Position(line, error.offset - 1), end)


_LAZY_ANNOTATIONS = __future__.annotations.compiler_flag


def _decorated_range(node: ast.stmt) -> Range:
    """Return the range of a statement, beginning at its first decorator if it has any."""
    first: ast.AST = next(iter(getattr(node, "decorator_list", ())), node)
    end_line, end_byte = node.end_lineno or node.lineno, node.end_col_offset or 0
    start_line, start_byte = getattr(first, "lineno", 1), getattr(first, "col_offset", 0)
    return Range(Position(start_line - 1, start_byte), Position(end_line - 1, end_byte))


def _contains_range(outer: Range, inner: Range) -> bool:
    start, end = (outer.start.line, outer.start.byte), (outer.end.line, outer.end.byte)
    return start <= (inner.start.line, inner.start.byte) and (inner.end.line, inner.end.byte) <= end


def _is_deeper(node: ast.stmt) -> bool:
    """Whether a statement is ``import a.b`` without ``as``.

    If it fails, the name ``a`` keeps an earlier binding.
    """
    return isinstance(node, ast.Import) and any(
        "." in alias.name and alias.asname is None for alias in node.names
    )


def _wants_fake(error: BaseException) -> bool:
    return texts.is_out_of_memory(error) or _wants_gpu(error)


def _wants_gpu(error: BaseException) -> bool:
    """Whether torch raised the error because it found no GPU or was built without GPU support."""
    kinds = (RuntimeError, AssertionError, NotImplementedError)
    return isinstance(error, kinds) and devices.is_missing_gpu_error(texts.error_message(error))


def _asks_for_gpu(node: ast.stmt) -> bool:
    """Whether a statement tests for a GPU, as ``assert torch.cuda.is_available()`` does, so that it
    fails without one."""
    test = node.test if isinstance(node, (ast.Assert, ast.If)) else None
    asked = ("cuda.is_available(", "cuda.device_count(")
    return test is not None and any(name in ast.unparse(test) for name in asked)


def _is_denied_natively(error: BaseException) -> bool:
    """Whether C++ code failed to open a file because the kernel's sandbox denied it, as in
    ``torch.save``."""
    return isinstance(error, RuntimeError) and any(
        words in texts.error_message(error)
        for words in ("Permission denied", "Read-only file system")
    )
