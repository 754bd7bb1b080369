"""Format a difference as JSON; ``docs/diff.md`` describes the keys."""

from __future__ import annotations

import dataclasses
from typing import Any

from fullgraph.cli.diff.difference import (
    KINDS,
    Compared,
    Difference,
    FileDifference,
    FindingDifference,
    RunDifference,
    Uncomputed,
)
from fullgraph.render.json import dump

VERSION = 1


def difference_json(difference: Difference) -> str:
    """Format a difference as JSON, in the format with the number ``VERSION``."""
    return dump(
        {
            "version": VERSION,
            "old": _side(difference.old),
            "new": _side(difference.new),
            "summary": {
                "findings": {kind: len(difference.findings(kind)) for kind in KINDS},
                "targets": {
                    "all": difference.targets,
                    "differing": difference.differing,
                    "unknown": difference.uncompared,
                    "untraced": difference.untraced,
                },
            },
            "missingCounts": [dataclasses.asdict(missing) for missing in difference.missing_counts],
            "files": [_file(file) for file in difference.files],
        }
    )


def _side(compared: Compared) -> dict[str, Any]:
    return {
        "name": compared.name,
        "torch": compared.torch or None,
        "python": compared.python or None,
        "errors": list(compared.problems),
    }


def _file(file: FileDifference) -> dict[str, Any]:
    return {
        "path": file.path,
        "missing": file.missing,
        "errors": [_uncomputed(problem) for problem in file.problems],
        "targets": [
            {
                "name": target.name,
                "runs": [_change(run) for run in target.runs],
                "findings": [_change(one) for one in target.findings],
            }
            for target in file.targets
        ],
    }


def _change(one: RunDifference | FindingDifference) -> dict[str, Any]:
    return {
        "change": one.kind,
        "old": dataclasses.asdict(one.old) if one.old is not None else None,
        "new": dataclasses.asdict(one.new) if one.new is not None else None,
        "uncomputed": _uncomputed(one.uncomputed),
    }


def _uncomputed(uncomputed: Uncomputed | None) -> dict[str, str] | None:
    return dataclasses.asdict(uncomputed) if uncomputed is not None else None
