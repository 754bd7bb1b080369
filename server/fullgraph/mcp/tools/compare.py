"""The tool ``compare``: compare a file with a git revision, or in two Pythons."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli import sources
from fullgraph.cli.diff.recordings import SharedRecordings
from fullgraph.cli.diff.revisions import CheckedOutTree, check_out
from fullgraph.cli.diff.words import extent_words, headline
from fullgraph.cli.file_settings import FileSettings
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.engines import InterpreterNotFound, find_interpreter
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import CompareAnswer, Refused
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import Subject, require_trust
from fullgraph.mcp.tools.changes import changed_targets, compare_checked
from fullgraph.session.setting_kinds import resolve_here
from fullgraph.session.settings import Project, SettingsSource


@dataclass(frozen=True)
class ComparedSides:
    """The two sides of a comparison: the git revision of the old side, empty for the text now, and
    the paths of the Pythons, empty for the Python of the project.
    """

    revision: str = ""
    old_python: str = ""
    new_python: str = ""

    def find_revision(self) -> str:
        """Return the git revision of the old side: HEAD if neither a revision nor a Python is
        given."""
        return self.revision or ("" if self.old_python or self.new_python else "HEAD")


async def compare(
    analyzer: Analyzer, subject: Subject, sides: ComparedSides, show_progress: ShowProgress
) -> CompareAnswer:
    """Check both sides of a file and return all differences.

    Raises:
        Refused: A side could not be traced, or the revision or a Python does not exist.
    """
    revision = sides.find_revision()
    old_subject, new_subject = [
        await asyncio.to_thread(_use_python, subject, python)
        for python in (sides.old_python, sides.new_python)
    ]
    recordings = SharedRecordings(subject.own.project.root)
    with contextlib.ExitStack() as cleanup:
        if revision:
            show_progress(f"Reading {revision}")
            try:
                tree = await asyncio.to_thread(
                    cleanup.enter_context, check_out(revision, subject.absolute.parent)
                )
                revised = _revise_subject(old_subject, tree)
            except UnreadableFile as error:
                raise Refused(str(error)) from error
            old = await analyzer.check(
                revised,
                show_progress,
                engine_settings=old_subject.own,
                adapt_request=lambda request: recordings.adapt_request(request, tree),
            )
            revision = tree.name
        else:
            old = await analyzer.check(old_subject, show_progress)
        new = await analyzer.check(new_subject, show_progress)
    names = (
        ", ".join(filter(None, (revision, sides.old_python))) or "the Python of the project",
        sides.new_python or "now",
    )
    difference, findings = compare_checked(old, new, names)
    words = ", ".join(part for part, _ in headline(difference))
    note = recordings.describe()
    return CompareAnswer(
        subject.path,
        subject.hash,
        f"{words}{extent_words(difference)} (from {names[0]} to {names[1]}).",
        tuple(finding for finding in findings if finding.change != "remains"),
        tuple(changed_targets(difference)),
        tuple(dict.fromkeys((*old.notes, *new.notes, *filter(None, [note])))),
    )


def _use_python(subject: Subject, python: str) -> Subject:
    """Return the subject with another Python to trace it; unchanged without one.

    Raises:
        Refused: The Python does not exist, or the user does not trust its folder.
    """
    if not python:
        return subject
    own = subject.own
    try:
        path = find_interpreter(resolve_here(python), own.project.root, os.environ).path
    except InterpreterNotFound as error:
        raise Refused(str(error)) from error
    # It is executed outside of the sandbox.
    require_trust(path.parent)
    settings = dataclasses.replace(own.settings, interpreter=str(path))
    return dataclasses.replace(subject, own=dataclasses.replace(own, settings=settings))


def page_comparison(answer: CompareAnswer, paging: Paging) -> CompareAnswer:
    """Return the part of an answer that fits into the budget.

    Raises:
        Refused: The cursor belongs to another text, or is invalid.
    """
    page = paging.page_items(answer.findings)
    return dataclasses.replace(answer, findings=page.items, cursor=page.cursor)


def _revise_subject(subject: Subject, tree: CheckedOutTree) -> Subject:
    """Return the version of a file in a checked-out revision, with the settings of the current
    file.

    Raises:
        UnreadableFile: The revision does not have the file.
    """
    own, absolute = subject.own, tree.locate(subject.absolute)
    text = sources.read_source(SourceFile(subject.path, absolute, named=True))
    roots = own.settings.import_roots(own.project.root)
    settings = dataclasses.replace(
        own.settings, extra_paths=tuple(str(_locate_or_keep(tree, Path(root))) for root in roots)
    )
    project = Project(tree.locate(own.project.root), SettingsSource("", {}))
    return Subject(subject.path, absolute, text, FileSettings(project, settings))


def _locate_or_keep(tree: CheckedOutTree, path: Path) -> Path:
    with contextlib.suppress(UnreadableFile):
        return tree.locate(path)
    return path
