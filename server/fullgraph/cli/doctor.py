"""``fullgraph doctor``: show the Python interpreter, whether the engine works, and where each
setting comes from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph import __version__
from fullgraph.domain.phrases import amount, seconds
from fullgraph.engines import (
    Engine,
    EngineGone,
    EngineState,
    EngineStatus,
    Interpreter,
    InterpreterNotFound,
    find_interpreter,
    sentences,
)
from fullgraph.render import cells
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph.session.allowances import resolve_allowances
from fullgraph.session.settings import Project, Resolved, format_value, list_declarations
from fullgraph_engine.protocol import SelfChecked
from fullgraph_engine.protocol.sandbox import PURPOSES

_COLUMN = 15


@dataclass(frozen=True)
class Examination:
    """The state of the interpreter, the engine and the settings, as ``fullgraph doctor`` found
    it."""

    project: Project
    resolved: Resolved
    """Settings with their origins and problems."""
    interpreter: Interpreter | None
    """Python interpreter of the project; None if none was found."""
    engine: EngineStatus | None
    """Status of the engine; None if it did not report one."""
    check: SelfChecked | None
    """Result of the engine's self check; None if the engine cannot work."""
    seconds: float
    """Seconds until the engine was ready."""
    problem: str
    """Sentence that says why the engine cannot work; empty if it can."""

    @property
    def status(self) -> int:
        """Exit status: 2 if the engine cannot work, 1 if something is degraded, otherwise 0."""
        if self.problem:
            return 2
        missing = self.check is not None and any(not hook.present for hook in self.check.hooks)
        degraded = self.engine is not None and bool(self.engine.degraded)
        return 1 if missing or degraded or self.resolved.problems else 0

    def format_text(self, paint: Paint = PLAIN) -> str:
        """Format the state as lines for a terminal; ``paint`` adds colors."""
        return "\n".join(self._all_lines(paint))

    def _all_lines(self, paint: Paint) -> Iterator[str]:
        yield paint(Style.STRONG, f"fullgraph {__version__}")
        yield _format_row("project", str(self.project.root))
        if self.interpreter is not None:
            yield _format_row("interpreter", f"{self.interpreter.path} ({self.interpreter.how})")
            for passed in self.interpreter.passed_over:
                yield _format_row("passed over", f"{passed.named}: it {passed.reason.value}")
        if self.engine is not None and self.engine.python:
            yield _format_row("python", self.engine.python)
        if self.engine is not None and self.engine.torch:
            yield _format_row("torch", self.engine.torch)
        if self.problem:
            yield _format_row("engine", paint(Style.ERROR, "cannot work: ") + self.problem)
        else:
            yield _format_row("engine", f"ready after {seconds(self.seconds)}")
        yield from self._hook_lines(paint)
        yield from self._sandbox_lines(paint)
        yield from self._setting_lines(paint)

    def _hook_lines(self, paint: Paint) -> Iterator[str]:
        if self.check is not None and self.check.hooks:
            present = sum(hook.present for hook in self.check.hooks)
            yield ""
            yield paint(Style.STRONG, "hooks into torch") + (
                f" ({present} of {len(self.check.hooks)} present)"
            )
            widest = max(cells.width(hook.name) for hook in self.check.hooks)
            for hook in self.check.hooks:
                sign = paint(Style.ADDED, "✓") if hook.present else paint(Style.ERROR, "✗")
                line = f"  {sign} {hook.name:<{widest}}  {hook.purpose}"
                if not hook.present:
                    line += paint(Style.WARNING, " (missing)")
                yield line + (f": {hook.detail}" if hook.detail else "")
        if self.engine is None:
            return
        for degradation in self.engine.degraded:
            yield f"  {paint(Style.WARNING, 'degraded:')} {degradation.words}"
        if self.engine.untested:
            yield f"  {paint(Style.WARNING, 'untested:')} {self.engine.message}"

    def _sandbox_lines(self, paint: Paint) -> Iterator[str]:
        layers = self.engine.sandbox.layers if self.engine is not None else ()
        if not layers:
            return
        wholly = sum(not layer.lack for layer in layers)
        yield ""
        yield paint(Style.STRONG, "sandbox") + (f" ({wholly} of {len(layers)} layers)")
        widest = max(cells.width(layer.name) for layer in layers)
        for layer in layers:
            sign = paint(Style.ADDED, "✓") if layer.holds else paint(Style.ERROR, "✗")
            line = f"  {sign} {layer.name:<{widest}}  {PURPOSES[layer.name]}"
            if layer.lack:
                line += paint(Style.WARNING, " (in part)" if layer.holds else " (missing)")
            yield line + (f": {layer.lack}" if layer.lack else "")

    def _setting_lines(self, paint: Paint) -> Iterator[str]:
        yield ""
        yield paint(Style.STRONG, "settings")
        known = list_declarations()
        widest = max(len(declaration.name) for declaration in known)
        for declaration in known:
            value = format_value(getattr(self.resolved.settings, declaration.field))
            origin = self.resolved.origins.get(declaration.name)
            where = f"({origin})" if origin else paint(Style.DIM, "(default)")
            yield f"  {declaration.name:<{widest}} = {value} {where}"
        if self.resolved.problems:
            yield ""
            yield paint(Style.STRONG, amount(len(self.resolved.problems), "problem"))
            for problem in self.resolved.problems:
                yield f"  {paint(Style.WARNING, 'warning:')} {problem}"


async def examine(project: Project, resolved: Resolved, env: Mapping[str, str]) -> Examination:
    """Start an engine as ``fullgraph check`` would, run its self check, and stop it.

    ``env`` are the environment variables, such as PATH, by which the interpreter is found.
    """
    interpreter: Interpreter | None = None
    status: EngineStatus | None = None
    check: SelfChecked | None = None
    trouble = ""
    began = time.monotonic()
    try:
        interpreter = find_interpreter(resolved.settings.interpreter, project.root, env)
    except InterpreterNotFound as error:
        trouble = str(error)
    startup_seconds = 0.0
    if interpreter is not None:
        engine = Engine(
            interpreter.path,
            cwd=project.root,
            processes=resolved.settings.engine_processes,
            allowed=resolve_allowances(resolved.settings.sandbox_allow, Path.cwd()),
        )
        try:
            await engine.start()
            status = await engine.ready()
            startup_seconds = time.monotonic() - began
            if status.state is EngineState.READY:
                check = await engine.self_check()
            else:
                trouble = sentences(status.message, status.next_step)
        except EngineGone as error:
            trouble = str(error)
        finally:
            await engine.close()
    return Examination(project, resolved, interpreter, status, check, startup_seconds, trouble)


def _format_row(name: str, value: str) -> str:
    return f"  {name:<{_COLUMN}}{value}"
