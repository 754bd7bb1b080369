"""``fullgraph fix``: apply verified fixes to files, or show them as a diff."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli import sources
from fullgraph.cli.check import running_engine
from fullgraph.cli.rewriting import rewrite_source
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.domain.positions import text_hash
from fullgraph.engines import AnyEngine, sentences
from fullgraph.fixes.fixing import RECOMPILE_SECONDS, Fixed, fixed
from fullgraph.fixes.step_times import StepTimes
from fullgraph.fixes.verification import Grade
from fullgraph.render.diffs import unified_diff
from fullgraph.render.fixes import FixedFile
from fullgraph.session.programs import WorkspacePrograms, with_programs
from fullgraph.session.request import analyze_request, may_have_targets
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze


@dataclass(frozen=True)
class FixRun:
    """The results of ``fullgraph fix``; ``torch`` is a version, empty if nothing was traced."""

    files: tuple[FixedFile, ...]
    torch: str = ""

    @property
    def incomplete(self) -> bool:
        """Whether a file could not be read, traced or written."""
        return any(file.problem or file.fixed.problem for file in self.files)

    @property
    def left(self) -> int:
        """Number of graph breaks that remain because they were not fixed."""
        return sum(len(file.fixed.left) for file in self.files)


async def fix_files(
    files: Sequence[SourceFile],
    *,
    settings: Settings,
    project: Path,
    engine: Callable[[], AnyEngine],
    grades: tuple[Grade, ...],
    backend: bool,
    forecast: bool = False,
    recompile_seconds: float | None = None,
    write: bool,
    show_progress: Callable[[str], None],
    on_file_done: Callable[[FixedFile], None],
) -> FixRun:
    """Fix graph breaks in files one after the other, with one engine process.

    ``grades`` are the grades of fixes to apply, ``backend`` also verifies them with Inductor.
    ``forecast`` also fixes code that recompiles with other sizes and values. Searches for
    recompiles end after ``recompile_seconds`` seconds without a fix; None: a default. With
    ``write``, each file is changed on disk as soon as it is fixed. ``show_progress`` is called with
    a text about the current work, ``on_file_done`` with the result of each file.

    Raises:
        EngineUnusable: The engine cannot trace files, for example without torch.
    """
    texts: dict[str, str] = {}
    results: dict[str, FixedFile] = {}
    for source in files:
        try:
            texts[source.path] = sources.read_source(source)
        except UnreadableFile as error:
            results[source.path] = FixedFile(source.path, "", Fixed(""), problem=str(error))
    wanted = [
        source
        for source in files
        if source.path in texts and (source.named or may_have_targets(texts[source.path]))
    ]
    torch = ""
    if wanted:
        show_progress("Importing torch")
        running = engine()
        programs = WorkspacePrograms(list_once=True)
        shown = tuple(str(source.absolute) for source in wanted)
        async with running_engine(running) as status:
            torch = status.torch
            for source in wanted:
                request = analyze_request(
                    name=str(source.absolute),
                    text=texts[source.path],
                    generation=text_hash(texts[source.path]),
                    settings=settings,
                    project=project,
                    only=source.targets,
                    forecast=forecast,
                )
                results[source.path] = file = await _fix_file(
                    source,
                    with_programs(request, programs, project, settings.program_files, shown),
                    running,
                    grades,
                    backend,
                    RECOMPILE_SECONDS if recompile_seconds is None else recompile_seconds,
                    write=write,
                    show_progress=show_progress,
                )
                on_file_done(file)
    return FixRun(
        tuple(results[source_file.path] for source_file in files if source_file.path in results),
        torch,
    )


async def _fix_file(
    source: SourceFile,
    request: Analyze,
    engine: AnyEngine,
    grades: tuple[Grade, ...],
    backend: bool,
    recompile_seconds: float,
    *,
    write: bool,
    show_progress: Callable[[str], None],
) -> FixedFile:
    began = time.monotonic()
    text = request.text
    times = StepTimes()
    result = await fixed(
        engine,
        request,
        grades=grades,
        backend=backend,
        recompile_seconds=recompile_seconds,
        tell=lambda words: show_progress(f"{source.path}, {words}"),
        times=times,
    )
    seconds = time.monotonic() - began
    problem = f"{source.path} could not be traced: {result.problem}" if result.problem else ""
    written = False
    if write and result.text != text and not problem:
        try:
            await asyncio.to_thread(rewrite_source, source.absolute, source.path, text, result.text)
            written = True
        except OSError as error:
            problem = sentences(
                f"{source.path} could not be written: {error.strerror or error}",
                "See the fixes with --diff.",
            )
        except UnreadableFile as error:
            problem = str(error)
    return FixedFile(source.path, text, result, written, seconds, problem, times)


def file_diff(file: FixedFile) -> str:
    """Format the changes of a fixed file as a unified diff; empty if nothing changed."""
    return unified_diff(file.path, file.before, file.fixed.text)
