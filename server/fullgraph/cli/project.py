"""Find the project, the settings and the engine that a command uses."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullgraph.cli.check import EngineUnusable
from fullgraph.cli.exit_status import UNABLE
from fullgraph.cli.report import CheckPrinter
from fullgraph.cli.terminal import write
from fullgraph.engines import (
    AnyEngine,
    EngineListener,
    Interpreter,
    InterpreterNotFound,
    find_interpreter,
    shared_or_own,
)
from fullgraph.session.allowances import resolve_allowances
from fullgraph.session.settings import (
    Project,
    Resolved,
    Settings,
    command_line_source,
    environment_source,
    find_project,
    resolve_settings,
)
from fullgraph_engine.protocol import Log

if TYPE_CHECKING:
    from fullgraph.engines.background import EngineLaunch


def engine_for(
    settings: Settings,
    project: Project,
    report: CheckPrinter | None = None,
    *,
    verbose: bool = False,
) -> AnyEngine:
    """Return the engine that the settings select: a running background engine, or a new one.

    ``report`` prints messages; with ``verbose``, it also prints the output of the traced code.

    Raises:
        EngineUnusable: No interpreter was found.
    """
    interpreter = _find_interpreter(settings, project)
    if report is not None and interpreter.remark:
        report.print_remarks([interpreter.remark])

    def on_log(log: Log) -> None:
        if report is not None and verbose:
            report.print_log(log.text)

    def on_note(sentence: str) -> None:
        if report is not None and verbose:
            report.print_remarks([sentence])

    return shared_or_own(
        EngineListener(log=on_log),
        interpreter.path,
        keep=settings.engine_keep_seconds,
        cwd=project.root,
        processes=settings.engine_processes,
        # Relative paths on the command line start at the current folder, not at the project.
        allowed=resolve_allowances(settings.sandbox_allow, Path.cwd()),
        on_note=on_note,
    )


def engine_launch(settings: Settings, project: Project) -> EngineLaunch:
    """Return the parameters with which another process can start the engine that the settings
    select.

    Raises:
        EngineUnusable: No interpreter was found.
    """
    from fullgraph.engines.background import EngineLaunch

    return EngineLaunch(
        str(_find_interpreter(settings, project).path.absolute()),
        settings.engine_processes,
        resolve_allowances(settings.sandbox_allow, Path.cwd()),
        str(project.root),
    )


def engine_key(settings: Settings, project: Project) -> Hashable:
    """Return a key of the engine for these settings; files with equal keys can share an engine.

    Raises:
        EngineUnusable: No interpreter was found.
    """
    interpreter = _find_interpreter(settings, project)
    return interpreter.path, settings.engine_processes, settings.sandbox_allow


def _find_interpreter(settings: Settings, project: Project) -> Interpreter:
    try:
        return find_interpreter(settings.interpreter, project.root, os.environ)
    except InterpreterNotFound as error:
        raise EngineUnusable(str(error)) from error


def load_settings(start: Path, flags: Mapping[str, Any]) -> tuple[Project, Resolved]:
    """Return the project that contains the folder ``start``, and the settings that apply to it.

    ``flags`` are the settings on the command line, by name. Exits with an error if a flag is
    invalid.
    """
    source = command_line_source(flags)
    bad = resolve_settings(source).problems
    if bad:
        for problem in bad:
            write(sys.stderr, f"error: {problem.partition(';')[0]}.\n")
        raise SystemExit(UNABLE)
    project = find_project(start)
    resolved = resolve_settings(project.source, environment_source(os.environ), source)
    problems = (*project.problems, *resolved.problems)
    return project, dataclasses.replace(resolved, problems=problems)


def common_folder(paths: Sequence[str]) -> Path:
    """Return the innermost folder that contains all paths."""
    absolute = [Path.cwd() / path for path in paths if not path.startswith("<")]
    if not absolute:
        return Path.cwd()
    folders = [str(path if path.is_dir() else path.parent) for path in absolute]
    return Path(os.path.commonpath([os.path.abspath(folder) for folder in folders]))  # noqa: PTH100
