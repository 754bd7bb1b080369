"""Remove unused ignore comments from files during ``fullgraph check --fix``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fullgraph.cli.rewriting import rewrite_source
from fullgraph.cli.sources import UnreadableFile
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.notebooks import SUFFIX
from fullgraph.domain.positions import TextPositions
from fullgraph.engines import sentences
from fullgraph.fixes.candidate import apply_edits
from fullgraph.render.checked import CheckedFile
from fullgraph.session.ignores import UNUSED


class IgnoreRemover:
    """Removes the unused ignore comments of checked files, and describes each change in
    ``remarks``."""

    def __init__(self) -> None:
        self.remarks: list[str] = []

    def fix(self, file: CheckedFile) -> CheckedFile:
        """Remove the unused ignore comments of a file, and return the file without their findings.

        If the file cannot be written, its ``problem`` says why.
        """
        unused = [item for item in file.findings if item.finding.code == UNUSED]
        if not unused:
            return file
        if file.path.endswith(SUFFIX):
            self.remarks.append(
                f"{file.path} is a notebook, which --fix does not change; remove its unused ignore "
                "comments in an editor."
            )
            return file
        before = file.text.text
        edits = [edit for item in unused for fix in item.finding.fixes for edit in fix.edits]
        after = apply_edits(before, edits)
        try:
            rewrite_source(Path(file.absolute), file.path, before, after)
        except UnreadableFile as error:
            return dataclasses.replace(file, problem=str(error))
        except OSError as error:
            reason = f"{file.path} could not be written: {error.strerror or error}"
            return dataclasses.replace(
                file, problem=sentences(reason, "Make it writable, or run without --fix.")
            )
        changed = TextPositions(after)
        self.remarks += [_describe_change(file, changed, item) for item in unused]
        rest = tuple(item for item in file.findings if item.finding.code != UNUSED)
        return dataclasses.replace(file, findings=rest)


def _describe_change(file: CheckedFile, changed: TextPositions, item: FileFinding) -> str:
    finding = item.finding
    comment, start = file.text.text_in(finding.range), finding.range.start
    place = f"{file.path}:{start.line + 1}"
    if finding.unnecessary:
        return f"{place}: removed `{comment}`."
    line = changed.line(start.line)
    rest = line[len(file.text.line(start.line)[: file.text.column(start)]) :]
    return f"{place}: changed `{comment}` to `{rest.partition(']')[0]}]`."
