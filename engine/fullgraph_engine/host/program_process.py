"""The process that executes a user's file as a program, and reports what ``torch.compile`` does in
it."""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from .. import protocol, texts
from ..protocol import (
    Event,
    Finding,
    FindingFound,
    GuardsFound,
    ProgramObserved,
    ShapesFound,
    TargetDone,
    TraceStepsFound,
    ValuesSeen,
)
from ..protocol.files import FilesRead, OpenFile
from ..protocol.packing import pack
from ..protocol.sandbox import Allowance
from ..protocol.trace_steps import MOST_STEPS
from . import blackbox, frames, import_hook, run, sandbox, wire
from .permissions import Permissions
from .pipeline import ProgramPipeline
from .process_backends import confinement, descriptors, limits
from .process_backends.channels import ProcessEnds
from .reads import Reads
from .wire import ProgramDone, ProgramOrder, ProgramShows, StageBegun, Upward

_exit, _monotonic = os._exit, time.monotonic
_SHARE = 4.0
"""Minimum interval between two reports of partial results, as a multiple of the time that one
report takes."""
_RAISES = ("trace/eager-error", "trace/compile-error")
_OUT_OF_LIMIT = ("MemoryError", "can't allocate memory", "[Errno 27] File too large")
_NO_NETWORK = ("EPERM: operation not permitted", "to a (local) address", "DistNetworkError")
_DATA = ("FileNotFoundError", "URLError", "ConnectionError", "LocalEntryNotFoundError")
"""Names of exceptions which indicate that the program's data is not on this machine."""
_ASKS_FOR_FILE = re.compile(r"\b(is_?file|is_?dir|exists)\(")
"""Pattern of calls that test whether a file exists, as in ``assert path.is_file()``."""


def main(
    order: ProgramOrder,
    ends: ProcessEnds,
    pipeline: ProgramPipeline,
    user_path: list[str],
    permissions: Permissions,
) -> NoReturn:
    """Execute the file in ``order`` as a program, send its results to the main process over
    ``ends`` and exit."""
    run.exit_after(
        lambda: _ProgramProcess(order, ends, pipeline, user_path, permissions).run_program(),
        ends.report,
        order.analyze.request,
    )


class _ProgramProcess:
    def __init__(
        self,
        order: ProgramOrder,
        ends: ProcessEnds,
        pipeline: ProgramPipeline,
        user_path: list[str],
        permissions: Permissions,
    ) -> None:
        self.order, self.ends, self.pipeline = order, ends, pipeline
        self.user_path, self.allowed = user_path, permissions.allowed
        root = os.path.dirname(order.scratch)  # noqa: PTH120
        self.sandbox = sandbox.Sandbox(
            root, pipeline.pass_over, pipeline.disable_tracing, permissions
        )
        self.open_texts = import_hook.OpenTexts()
        self.reads: Reads | None = None
        self.program: Any = None
        self.sent: set[ProgramShows] = set()
        self.next_flush = 0.0
        self.finishing = False

    @property
    def path(self) -> str:
        return self.order.path

    def send_message(self, message: Event | Upward) -> None:
        wire.write_message(self.ends.report, message)

    def run_program(self) -> None:
        analyze = self.order.analyze
        self.ends.raise_all()
        self.send_message(StageBegun("run", analyze.program.seconds))
        roots = tuple(analyze.roots)
        if not self.pipeline.is_program(self.order.text, self.path, roots):
            self.send_message(ProgramDone(ran=False))
            return
        self.enter_sandbox()
        self.program = self.pipeline.make_program(
            self.path,
            self.order.text,
            analyze.program,
            self.finish_and_exit,
            lacks=self.order.lacks,
        )
        refused = self.program.find_backend()
        if refused:
            self.send_message(ProgramDone(ran=False, refused=refused))
            return
        self.program.on_new_work = self.flush
        blackbox.dump_at(self.ends.box, analyze.program.seconds + 1.0)
        ending = self.program.run()
        self.finish(ending)

    # -- before the program ---------------------------------------------------------------------

    def enter_sandbox(self) -> None:
        """Apply the sandbox to this process, and set ``sys.argv`` and the environment as for a
        program started from a shell."""
        analyze, ends = self.order.analyze, self.ends
        descriptors.attach_streams(ends.stdout, ends.stderr)
        limits.reset_signals(self.handle_interrupt)
        blackbox.enable_fault_dump(ends.box)
        os.environ.update(sandbox.sandbox_environment(self.order.scratch, self.allowed))
        tempfile.tempdir = self.order.scratch
        sandbox.enter_folder(analyze.cwd, self.path, self.order.scratch)
        sys.dont_write_bytecode = True
        own = [os.path.dirname(self.path), *analyze.roots]  # noqa: PTH120
        sys.path[:] = [*dict.fromkeys(own), *(one for one in self.user_path if one not in own)]
        import_hook.cache_source(self.path, self.order.text)
        others = [one for one in analyze.open_files if one.path != analyze.path]
        if analyze.path != self.path:
            others.append(OpenFile(analyze.path, analyze.text))
        self.open_texts.replace(others)
        sys.meta_path.insert(0, self.open_texts)
        root = os.path.dirname(self.order.scratch)  # noqa: PTH120
        self.reads = Reads(self.path, self.user_path, root)
        self.reads.open_files = self.open_texts.texts.keys()
        sys.meta_path.append(self.reads.unfound)
        limits.apply_limits(analyze.limits.memory)
        confinement.isolate_process()
        here = Path.cwd()
        folders = (here, here.parent, Path(self.path).parent, Path.home(), Path("/tmp"))
        private = tuple(str(folder) for folder in folders if folder != folder.parent)
        self.sandbox.install(analyze.limits.memory, private=private)
        self.reads.discarded = self.sandbox.discarded
        # Set this last, because entering the sandbox lists folders itself.
        self.sandbox.noted = self.open_texts.loaded = self.reads.opened
        self.pipeline.audit_native_writes()
        self.pipeline.note_registrations()
        os._exit = self.exit

    def text_of(self, path: str) -> str:
        """Return the text of a file as the program read it; empty if it cannot be read."""
        if path == self.path:
            return self.order.text
        known = self.open_texts.texts.get(path)
        if known is not None:
            return known
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    # -- its end --------------------------------------------------------------------------------

    def handle_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Report the results and end the program when the engine's main process sends a signal."""
        blackbox.at_stack(self.ends.box, frames.of_stack(frame))
        if self.program is None:
            return
        how = "time" if number == limits.INTERRUPT else "killed"
        self.finish_and_exit(self.program.describe_ending(how, frame))

    def exit(self, status: int = 0) -> NoReturn:
        """Report the results, then end the process; this function replaces ``os._exit`` for user
        code."""
        try:
            if self.program is not None and not self.finishing:
                frame = sys._getframe(1)
                how = "exited" if status else "finished"
                self.finish(self.program.describe_ending(how, frame, status))
        finally:
            _exit(status)

    def finish_and_exit(self, ending: Any) -> None:
        """Report all results, with the description ``ending`` of how the program ended, and end
        this process."""
        if self.finishing:
            return
        work = functools.partial(self.finish, ending)
        run.exit_after(work, self.ends.report, self.order.analyze.request)

    def finish(self, ending: Any) -> None:
        """Report all results; ``ending`` describes how the program ended."""
        self.finishing = True
        descriptors.flush_streams()
        lacks = self.program.lacks_after(ending)
        if lacks:
            self.send_message(ProgramDone(ran=True, how=ending.how, lacks=lacks))
            return
        self.program.settle_compilation()
        self.report_values(ending)
        results = self.pipeline.program_results(self.program, ending, self.text_of)
        first = self.order.analyze.path
        for path in (first, *(one for one in results.paths if one != first)):
            shown = results.of_file(path)
            self.report(shown, path)
            if not shown.is_off:
                self.check_operators(path)
        if self.reads is not None:
            self.send_message(
                FilesRead.from_files(self.order.analyze.request, self.reads.new_states())
            )
        called = len(results.called)
        self.send_message(ProgramDone(ran=True, how=ending.how, called=called, note=results.note))

    def report_values(self, ending: Any) -> None:
        """Report the values that the program computed, if the request asks for them; ``ending``
        describes how the program ended.
        """
        if self.program.values is None:
            return
        further, difference = self.program.observe_end()
        analyze, recording = self.order.analyze, self.program.recording
        event = ProgramObserved(
            analyze.request,
            pack(tuple(self.program.values.found)),
            further,
            difference,
            self.program.compile_seconds,
            graphs=len(recording.graphs),
            breaks=len({(one.id, one.stack) for one in recording.breaks}),
            recompiles=len(recording.recompiles),
            how=ending.how,
            error=texts.type_and_message(ending.error) if ending.error is not None else "",
        )
        self.send(analyze.path, event)

    def flush(self) -> None:
        """Report the results so far, unless reporting has recently taken too large a share of the
        program's time."""
        began = _monotonic()
        if self.finishing or began < self.next_flush:
            return
        ending = self.program.describe_ending("running", None)
        results = self.pipeline.program_results(self.program, ending, self.text_of)
        path = self.order.analyze.path
        self.report(results.of_file(path), path)
        now = _monotonic()
        self.next_flush = now + _SHARE * (now - began)

    def report(self, shown: Any, path: str) -> None:
        """Send the results ``shown`` for the file ``path``; leave out results that were sent
        before."""
        number = self.order.analyze.request
        for finding in shown.findings:
            deeper = shown.deeper.get(finding.identity, ())
            self.send(path, FindingFound(number, self.explain_failure(finding, path)), deeper)
        for region in shown.regions:
            name = region.report.name
            if region.guards:
                guards = GuardsFound.from_frames(number, name, region.guards, region.guards_note, 0)
                self.send(path, guards)
            if region.steps:
                steps = tuple(region.steps[:MOST_STEPS])
                left_out = len(region.steps) - len(steps)
                self.send(path, TraceStepsFound(number, name, steps, left_out, 0))
        if shown.regions:
            name = shown.regions[0].report.name
            if shown.values:
                self.send(path, ValuesSeen.from_values(number, name, shown.values))
            if shown.shapes:
                places = ShapesFound.from_places(number, name, shown.shapes, shown.shapes_note, 0)
                self.send(path, places)
        for report in shown.reports:
            self.send(path, TargetDone(number, report))

    def send(self, path: str, event: Event, deeper: tuple[str, ...] = ()) -> None:
        message = ProgramShows(path, protocol.encode(event).decode(), deeper)
        if message not in self.sent:
            self.sent.add(message)
            self.send_message(message)

    def check_operators(self, path: str) -> None:
        """Report defects of custom operators in a file, and operator definitions with which torch
        raises an error."""
        text = self.text_of(path)
        if not self.pipeline.may_register(text):
            return
        wrong = self.pipeline.check_text(text)
        for finding in (*(one.finding for one in wrong), *self.pipeline.check_registered(text)):
            self.send(path, FindingFound(self.order.analyze.request, finding))

    def explain_failure(self, finding: Finding, path: str) -> Finding:
        """Return ``finding`` with an explanation if a limit of fullgraph or of this machine caused
        the failure; else unchanged."""
        finding = frames.drop_scratch_paths(finding, self.sandbox.root)
        if finding.code not in _RAISES:
            return finding
        said = finding.message.partition(": ")[2]
        if any(words in said for words in _OUT_OF_LIMIT):
            most = self.order.analyze.limits.memory
            words = f"The program reached the limit of {most} MiB for memory and files here: {said}"
            hint = "Raise the setting `memory-limit`, or give the program smaller sizes."
            return replace(finding, code="program/limit", message=words, hints=(hint,))
        if said.startswith("EOFError"):
            words = "The program reads standard input here, which is empty when fullgraph runs it"
            return replace(finding, code="program/no-input", message=words)
        if any(words in said for words in _NO_NETWORK):
            words = (
                "Refused while the program ran, because fullgraph gives it no network access: "
                f"{said}"
            )
            refused = Allowance("network")
            return replace(
                finding,
                code="program/refused",
                message=words,
                allowance=refused,
                hints=(sandbox.allowance_hint(refused),),
            )
        if self.sandbox.is_explained(said):
            words = f"Refused while the program ran: {said.partition(': ')[2] or said}"
            finding = replace(finding, code="program/refused", message=words)
            return self.sandbox.explain_refusal(finding, said)
        line = self.text_of(path).split("\n")[max(finding.range.start.line, 0) :][:1]
        asserted = said.startswith("AssertionError") and _ASKS_FOR_FILE.search("".join(line))
        if said.startswith(_DATA) or asserted:
            words = f"The program stops here, because data is missing on this machine: {said}"
            hint = (
                "Provide the data, or pass arguments that do not need them: `# fullgraph: run(…)`."
            )
            local = asserted or said.startswith("FileNotFound")
            network = None if local else Allowance("network")
            return replace(
                finding,
                code="program/data-missing",
                message=words,
                hints=(hint,),
                allowance=network,
            )
        return finding
