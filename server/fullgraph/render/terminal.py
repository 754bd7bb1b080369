"""Format findings for a terminal: code, explanation, hints and stack, then a line per traced
function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.calls import calls_clause
from fullgraph.domain.causes import rank_by_cost
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guard_names import other_names
from fullgraph.domain.notebooks import find_cell_in_file
from fullgraph.domain.paths import short_path
from fullgraph.domain.phrases import amount, listing, seconds
from fullgraph.domain.positions import TextPositions
from fullgraph.domain.wording import consequence, explanation, message_lines, repeated_words
from fullgraph.render import cells
from fullgraph.render.breaks import cause_words, cost_clause
from fullgraph.render.checked import CheckedFile, CheckResults, LeftOut
from fullgraph.render.excerpt import Excerpt, margin_width
from fullgraph.render.measured import measured_text
from fullgraph.render.numerics import numerics_text
from fullgraph.render.paint import PLAIN, SEVERITY_STYLES, Paint, Style
from fullgraph.render.stack import FoldedFrames, fold_stack, is_library
from fullgraph.render.summary import target_line
from fullgraph.render.timings import timings_text
from fullgraph_engine.protocol import Finding, Fix, Frame, Related

_MOST_COSTLY = 3
"""Maximum number of expensive graph breaks in the summary of a file."""


@dataclass(frozen=True)
class FindingFile:
    """The file that contains a finding: its path for display, its absolute path as the engine
    reports it, and its text."""

    path: str
    absolute: str
    text: TextPositions

    def display_path(self, path: str) -> str:
        """Return the path of any file in the style in which the path of this file is displayed."""
        if path in (self.absolute, self.path):
            return self.path
        folder = self.absolute.removesuffix(self.path) if self.absolute != self.path else ""
        return short_path(path, folder or str(Path.cwd()))


def finding_text(item: FileFinding, place: FindingFile, paint: Paint = PLAIN) -> str:
    """Format a finding with excerpt, hints and stack, for ``fullgraph check`` and for the
    ``rendered`` data of an LSP diagnostic."""
    return "\n".join(_finding_lines(item, place, paint))


def file_text(file: CheckedFile, paint: Paint = PLAIN, *, quiet: bool = False) -> str:
    """Format the findings and traced functions of a file; empty if there are none. ``quiet`` omits
    the summary of the functions."""
    place = FindingFile(file.path, file.absolute, file.text)
    firsts = (item for item in file.findings if item.same_as is None)
    blocks = [finding_text(item, place, paint) for item in firsts]
    if not quiet and (file.targets or file.notes):
        blocks.append("\n".join(_file_summary(file, paint)))
    if file.timed:
        blocks.append(measured_text(file.timed, paint))
    if file.numerics:
        blocks.append(numerics_text(file.numerics, paint))
    if file.timings:
        blocks.append(timings_text(file.timings, paint, path=file.absolute))
    return "\n\n".join(blocks)


def check_text(checked: CheckResults, paint: Paint = PLAIN) -> str:
    """Format the last lines of a check: the number of findings, traced functions and files, and
    what was not traced."""
    found = severity_words(checked, paint)
    words = "No new findings" if checked.known else "No findings"
    if checked.incomplete:
        words += " in the code that could be checked"
    nothing = paint(Style.STRONG, words)
    head = f"Found {listing(found)}" if found else nothing
    rest = f"; {', '.join(extent_words(checked))}."
    lines = [head + paint(Style.DIM, rest)]
    return "\n".join([*lines, *(paint(Style.DIM, words) for words in untraced_words(checked))])


def untraced_words(checked: CheckResults) -> list[str]:
    """Return sentences that count what a check did not trace, and why; empty if it traced
    everything."""
    sentences = []
    reasons = checked.untraced
    if total := sum(reasons.values()):
        parts = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        verb = "was" if total == 1 else "were"
        sentences.append(f"{amount(total, 'target')} {verb} not traced: {parts}.")
    paths = Counter(
        path.status for file in checked.files for one in file.targets for path in one.paths
    )
    reasons_of_paths = {"raised": paths["failed"], "over the time limit of a file": paths["late"]}
    if of_paths := [f"{count:,} {why}" for why, count in reasons_of_paths.items() if count]:
        total = paths["failed"] + paths["late"]
        verb = "was" if total == 1 else "were"
        sentences.append(f"{amount(total, 'other path')} {verb} not traced: {', '.join(of_paths)}.")
    left_out: Counter[LeftOut] = Counter()
    for file in checked.files:
        traced = {(one.name, one.range) for one in file.targets if one.status == "traced"}
        left_out.update({kind: len(traced) for kind in file.left_out if traced})
    for kinds, count in _same_counts(left_out):
        verb = "was" if count == 1 else "were"
        sentences.append(
            f"{amount(count, 'target')} {verb} traced without {' and '.join(kinds)} "
            "(off in the settings)."
        )
    return sentences


def _same_counts(counts: Counter[LeftOut]) -> list[tuple[list[LeftOut], int]]:
    """Return groups of (kinds of traces that were left out, number of targets). The kinds in a
    group were left out for the same number of targets.
    """
    groups: dict[int, list[LeftOut]] = {}
    for kind, count in counts.items():
        groups.setdefault(count, []).append(kind)
    return [(kinds, count) for count, kinds in groups.items()]


def _finding_lines(item: FileFinding, place: FindingFile, paint: Paint) -> Iterator[str]:
    finding = item.finding
    style = SEVERITY_STYLES.get(item.severity, Style.HINT)
    first, *more = cells.printable_lines("\n".join(message_lines(finding))) or [""]
    yield (
        paint(style, f"{item.severity.value}[{finding.code}]")
        + paint(Style.STRONG, ": ")
        + paint(Style.STRONG, first)
    )
    excerpt = Excerpt(paint, _finding_margin(item))
    start = finding.range.start
    column = place.text.column(start) + 1
    arrow = " " * excerpt.margin + paint(Style.GUTTER, "-->")
    line = _line_words(place, start.line)
    yield f"{arrow} {cells.printable(place.path)}:{line}:{column}"
    marked = excerpt.mark_range(place.text, finding.range, style)
    yield from marked or [excerpt.draw_gutter()]
    notes = _NoteLines(excerpt)
    for words in filter(None, ("\n".join(more), consequence(finding), explanation(finding))):
        yield from notes.unnamed_note(words)
    for hint in finding.hints:
        yield from notes.named_note("hint", hint)
    for name in other_names(finding):
        yield from notes.named_note("also", name)
    if finding.context:
        yield from notes.named_note("context", finding.context, Style.DIM)
    yield from _stack_lines(finding.stack, place, notes)
    yield from _related_lines(item, place, notes)
    for note in (*finding.notes, *_reach_words(item)):
        yield from notes.named_note("note", note)
    for cause in finding.causes:
        if item.also or cause.kind != "place":
            yield from notes.named_note("cause", cause_words(cause, start.line, place.display_path))
    if item.also:
        shown = [
            f"{other.start.line + 1}:{place.text.column(other.start) + 1}" for other in item.also
        ]
        yield from notes.named_note("also", f"{repeated_words(finding)} at {listing(shown)}")
    if finding.cost is not None:
        yield from notes.named_note("cost", cost_clause(finding.cost))
    for fix in _shown_fixes(finding):
        yield from _fix_lines(fix, place, excerpt, notes)
    if item.href:
        yield from notes.named_note("help", item.href, Style.LINK)


class _NoteLines:
    """Formats the lines below a source excerpt; each kind of note (help, stack) begins with its
    name."""

    def __init__(self, excerpt: Excerpt) -> None:
        self._excerpt = excerpt
        self.paint = excerpt.paint

    def unnamed_note(self, text: str) -> Iterator[str]:
        yield from self._wrap_note("", text, None)

    def named_note(self, name: str, text: str, style: Style | None = None) -> Iterator[str]:
        yield from self._wrap_note(f"{name}: ", text, style)

    def note_rows(self, name: str, rows: list[str]) -> Iterator[str]:
        """Yield the formatted lines ``rows`` of a note, with the note's name before the first."""
        head = f"{name}: "
        for number, row in enumerate(rows):
            lead = self.paint(Style.STRONG, head) if number == 0 else " " * len(head)
            yield (self._margin_sign(number == 0) + f" {lead}{row}").rstrip()

    def _wrap_note(self, head: str, text: str, style: Style | None) -> Iterator[str]:
        room = max(40, self.paint.width - self._excerpt.margin - 3 - len(head))
        lines = [part for line in cells.printable_lines(text) for part in cells.wrap(line, room)]
        for number, line in enumerate(lines):
            lead = self.paint(Style.STRONG, head) if number == 0 else " " * len(head)
            body = self.paint(style, line) if style is not None else line
            yield (self._margin_sign(number == 0) + f" {lead}{body}").rstrip()

    def _margin_sign(self, first: bool) -> str:
        return self._excerpt.draw_gutter("=" if first else " ")


def _stack_lines(frames: tuple[Frame, ...], place: FindingFile, notes: _NoteLines) -> Iterator[str]:
    paint = notes.paint
    rows: list[str] = []
    folded = fold_stack(frames)
    # If the stack has a single frame, the excerpt already shows its line.
    for number, frame in enumerate(folded if len(folded) > 1 else ()):
        if isinstance(frame, FoldedFrames):
            words = f"{amount(frame.count, 'frame')} of {frame.package}"
            rows.append(paint(Style.DIM, f"... {words}"))
            continue
        in_same_file = frame.path in (place.absolute, place.path)
        line = _line_words(place, frame.line) if in_same_file else str(frame.line + 1)
        where = f"{place.display_path(frame.path)}:{line}"
        head = f"{cells.printable(where)} in {cells.printable(frame.function)}"
        # The excerpt shows the code of the most recent call, unless that frame is in another file.
        repeated = number == len(folded) - 1 and frame.path == place.absolute
        code = "" if repeated else cells.printable(_frame_source(frame, place).strip())
        rows.append(paint(Style.DIM, head) if is_library(frame.path) else head)
        if code:
            room = max(40, paint.width - 16)
            part = cells.crop(code, 0, room)
            rows.append(paint(Style.DIM, "  " + part.text + ("…" if part.after else "")))
    yield from notes.note_rows("stack", rows)


def _frame_source(frame: Frame, place: FindingFile) -> str:
    if frame.text or frame.path != place.absolute:
        return frame.text
    return place.text.line(frame.line)


def _related_lines(item: FileFinding, place: FindingFile, notes: _NoteLines) -> Iterator[str]:
    on_stack = {(frame.path, frame.line) for frame in item.finding.stack}
    for related in item.finding.related:
        if len(item.finding.stack) > 1 and (related.path, related.range.start.line) in on_stack:
            continue
        yield from notes.named_note("see", f"{_related_place(related, place)}: {related.message}")


def _related_place(related: Related, place: FindingFile) -> str:
    start = related.range.start
    in_same_file = related.path in (place.absolute, place.path)
    column = place.text.column(start) if in_same_file else start.byte
    line = _line_words(place, start.line) if in_same_file else str(start.line + 1)
    return f"{place.display_path(related.path)}:{line}:{column + 1}"


def _line_words(place: FindingFile, line: int) -> str:
    """Return the number of a zero-based line for display, counted from 1; in a notebook, the cell
    and the line in it."""
    cell = find_cell_in_file(place.path, place.text, line)
    return cell.words if cell is not None else str(line + 1)


def _reach_words(item: FileFinding) -> Iterator[str]:
    finding = item.finding
    facts = []
    if finding.count > 1:
        facts.append(f"reached {amount(finding.count, 'time')}")
    if seen_in := calls_clause(finding):
        facts.append(seen_in if facts else f"seen {seen_in}")
    if len(item.targets) > 1:
        facts.append(f"by {listing(item.targets)}" if facts else f"of {listing(item.targets)}")
    # A finding without a function was reported while the module's top level was executed.
    if finding.mode == "real" and finding.target:
        facts.append("with real tensors" if facts else "seen with real tensors")
    if facts:
        yield ", ".join(facts)


def _shown_fixes(finding: Finding) -> tuple[Fix, ...]:
    """Return the preferred fixes of a finding; without any, the first fix, because a terminal
    cannot offer a choice."""
    return tuple(fix for fix in finding.fixes if fix.preferred) or finding.fixes[:1]


def _fix_lines(fix: Fix, place: FindingFile, excerpt: Excerpt, notes: _NoteLines) -> Iterator[str]:
    yield from notes.named_note("fix", fix.title)
    for edit in fix.edits:
        yield from excerpt.draw_edit(place.text, edit)


def _finding_margin(item: FileFinding) -> int:
    edits = [edit for fix in _shown_fixes(item.finding) for edit in fix.edits]
    added = max((edit.text.count("\n") for edit in edits), default=0)
    return margin_width(item.finding.range, *(edit.range for edit in edits), extra=added)


def _file_summary(file: CheckedFile, paint: Paint) -> Iterator[str]:
    yield paint(Style.STRONG, cells.printable(file.path))
    for report in file.targets:
        line = cells.printable(target_line(report))
        bad = report.status in ("failed", "timeout", "crashed")
        name = paint(Style.ERROR if bad else Style.STRONG, cells.printable(report.name))
        yield f"  {name}: {line}"
    for words in _cause_lines(file, FindingFile(file.path, file.absolute, file.text)):
        yield f"  {cells.printable(words)}"
    for note in file.notes:
        yield f"  {paint(Style.DIM, cells.printable(note))}"


def _cause_lines(file: CheckedFile, place: FindingFile) -> Iterator[str]:
    """Yield lines about the causes that several findings share, and about the most expensive graph
    breaks."""
    for item in file.findings:
        if item.also and item.finding.causes:
            words = listing(
                cause_words(cause, item.finding.range.start.line, place.display_path)
                for cause in item.finding.causes
            )
            places = amount(1 + len(item.also), "place")
            causes = amount(len(item.finding.causes), "cause")
            yield f"{places}, {causes}: {words}: {_finding_title(item.finding)}"
    for number, item in enumerate(rank_by_cost(file.findings)[:_MOST_COSTLY]):
        cost, line = item.finding.cost, item.finding.range.start.line + 1
        if cost is not None and cost.worth_fixing:
            head = "costliest" if number == 0 else "then"
            yield f"{head}: line {line}, {cost_clause(cost)}"


def _finding_title(finding: Finding) -> str:
    return message_lines(finding)[0].removeprefix("Graph break: ").partition(";")[0]


def severity_words(checked: CheckResults, paint: Paint = PLAIN) -> list[str]:
    """Return the number of findings of each severity, such as ``2 warnings``."""
    counts = checked.count_severities()
    return [
        paint(style, _count_words(counts[severity], severity))
        for severity, style in SEVERITY_STYLES.items()
        if counts.get(severity)
    ]


def _count_words(number: int, severity: Severity) -> str:
    # "Information" does not have a plural.
    if severity is Severity.INFORMATION:
        return f"{number} information finding" + ("s" if number > 1 else "")
    return amount(number, severity.value)


def extent_words(checked: CheckResults) -> Iterator[str]:
    """Yield how much was traced, what was not, and which versions were used."""
    reports = [report for file in checked.files for report in file.targets]
    names = {(file.path, r.name, r.range) for file in checked.files for r in file.targets}
    yield f"{amount(len(names), 'target')} in {amount(len(checked.files), 'file')}"
    broken = [item.finding.causes for item in checked.findings() if item.finding.causes]
    causes = {cause.identity for causes in broken for cause in causes}
    if len(causes) < len(broken):
        yield f"{amount(len(causes), 'cause')} of {amount(len(broken), 'graph break')}"
    by_status = Counter(report.status for report in reports)
    if by_status["failed"]:
        yield f"{by_status['failed']} failed"
    if checked.known:
        yield f"{amount(checked.known, 'finding')} hidden by the baseline"
    if stale := sum(file.stale for file in checked.files):
        yield (
            f"{amount(stale, 'finding')} of the baseline no longer found (remove with "
            "--update-baseline)"
        )
    unread = sum(bool(file.problem) for file in checked.files)
    if unread:
        yield f"{unread} could not be checked"
    if checked.missing:
        yield f"{amount(len(checked.missing), 'file')} not analyzed"
    if checked.torch:
        yield f"torch {checked.torch}"
    yield seconds(checked.seconds)
