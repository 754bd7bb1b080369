"""Use the recorded inputs of the working tree for both sides of a comparison, so that a difference
comes from the code."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fullgraph.cli.diff.revisions import CheckedOutTree
from fullgraph.domain.phrases import listing
from fullgraph.session.recordings import recording_of
from fullgraph_engine.protocol import Analyze, RecordedClass
from fullgraph_engine.protocol.recorded import FILE

_MOST_NAMES = 3


@dataclass
class SharedRecordings:
    """Replaces the recorded inputs of a revision by the inputs recorded in the working tree.

    ``project`` is the folder of the project in the working tree.
    """

    project: Path
    shared: set[tuple[Path, str]] = field(default_factory=set)
    """Files and names of classes for which both sides use the working tree's inputs, although the
    revision recorded other inputs or none."""
    dropped: set[tuple[Path, str]] = field(default_factory=set)
    """Files and names of classes whose inputs the revision recorded, but not the working tree.
    Neither side uses them."""
    separate: set[tuple[Path, str]] = field(default_factory=set)
    """Files and names of classes whose parameters have changed, so that each side uses its own
    recorded inputs."""

    def adapt_request(self, request: Analyze, tree: CheckedOutTree) -> Analyze:
        """Return the request to trace a file of a revision, with the inputs of the working tree.

        A class keeps the inputs of its revision if its parameters have changed, or if the working
        tree does not have the class.
        """
        path = tree.restore(Path(request.path))
        # The path of the project may contain symbolic links, unlike the path of the repository.
        project = tree.restore(tree.locate(self.project))
        own = {one.name: one for one in request.recorded}
        now = {one.name: one for one in recording_of(str(path), project).classes}
        used = {}
        for name in sorted(own.keys() | now.keys()):
            current, earlier = now.get(name), own.get(name)
            if current is None and not _defines_class(path, name):
                used[name] = own[name]
            elif current and earlier and not _has_same_parameters(current, earlier):
                used[name] = earlier
                self.separate.add((path, name))
            elif current is None:
                self.dropped.add((path, name))
            else:
                used[name] = current
                if earlier is None or current.calls != earlier.calls:
                    self.shared.add((path, name))
        return dataclasses.replace(request, recorded=tuple(used.values()))

    def describe(self) -> str:
        """Return a sentence about the recorded inputs of both sides; empty if the recordings of the
        revisions and of the working tree are equal."""
        parts = []
        if self.shared:
            parts.append(
                f"both sides use the inputs of {_list_names(self.shared)} in the current {FILE}"
            )
        if self.dropped:
            parts.append(
                f"neither side uses recorded inputs of {_list_names(self.dropped)}, because the "
                f"current {FILE} has none"
            )
        if self.separate:
            parts.append(
                f"each side uses its own recorded inputs of {_list_names(self.separate)}, because "
                "the parameters changed"
            )
        if not parts:
            return ""
        words = "; ".join(parts)
        return f"{words[:1].upper()}{words[1:]}."


def _list_names(classes: Iterable[tuple[Path, str]]) -> str:
    names = sorted(f"`{name}`" for _, name in classes)
    more = len(names) - _MOST_NAMES
    return listing([*names[:_MOST_NAMES], *([f"{more} more"] if more > 0 else [])])


def _has_same_parameters(one: RecordedClass, other: RecordedClass) -> bool:
    return (one.init_signature, one.forward_signature) == (
        other.init_signature,
        other.forward_signature,
    )


def _defines_class(path: Path, name: str) -> bool:
    """Whether the file contains a class with this name."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"^[ \t]*class\s+{re.escape(name)}\b", text, re.MULTILINE) is not None
