"""The tool ``compare``: compare a file with a git revision."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from pathlib import Path

from fullgraph.cli import sources
from fullgraph.cli.diff.recordings import SharedRecordings
from fullgraph.cli.diff.revisions import CheckedOutTree, check_out
from fullgraph.cli.diff.words import extent_words, headline
from fullgraph.cli.file_settings import FileSettings
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import CompareAnswer
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.refusal import Refused
from fullgraph.mcp.subjects import Subject
from fullgraph.mcp.tools.changes import changed_targets, compare_checked
from fullgraph.session.settings import Project, SettingsSource


async def compare(
    analyzer: Analyzer, subject: Subject, revision: str, show_progress: ShowProgress
) -> CompareAnswer:
    """Check a file as it was in a git revision and as it is now, and return all differences.

    Raises:
        Refused: A side could not be traced, or the revision does not exist.
    """
    show_progress(f"Reading {revision}")
    with contextlib.ExitStack() as cleanup:
        try:
            tree = await asyncio.to_thread(
                cleanup.enter_context, check_out(revision, subject.absolute.parent)
            )
            old_subject = _old_subject(subject, tree)
        except UnreadableFile as error:
            raise Refused(str(error)) from error
        recordings = SharedRecordings(subject.own.project.root)
        old = await analyzer.check(
            old_subject,
            show_progress,
            engine_settings=subject.own,
            adapt_request=lambda request: recordings.adapt_request(request, tree),
        )
        new = await analyzer.check(subject, show_progress)
        name = tree.name
    difference, findings = compare_checked(old, new, (name, "now"))
    words = ", ".join(part for part, _ in headline(difference))
    note = recordings.describe()
    return CompareAnswer(
        subject.path,
        subject.hash,
        f"{words}{extent_words(difference)} (since {name}).",
        tuple(finding for finding in findings if finding.change != "remains"),
        tuple(changed_targets(difference)),
        tuple(dict.fromkeys((*old.notes, *new.notes, *filter(None, [note])))),
    )


def page_comparison(answer: CompareAnswer, paging: Paging) -> CompareAnswer:
    """Return the part of an answer that fits into the budget.

    Raises:
        Refused: The cursor belongs to another text, or is invalid.
    """
    page = paging.page_items(answer.findings)
    return dataclasses.replace(answer, findings=page.items, cursor=page.cursor)


def _old_subject(subject: Subject, tree: CheckedOutTree) -> Subject:
    """Return the file in a checked-out revision, with the settings of the file now.

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
