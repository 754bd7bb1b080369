"""Format the differences of two checks as JSON; ``docs/diff.md`` describes the keys."""

from __future__ import annotations

import dataclasses
from typing import Any

from fullgraph.cli.diff.difference import (
    KINDS,
    CheckDifference,
    ComparedCheck,
    FileDifference,
    FindingDifference,
    RunDifference,
    Uncomputed,
)
from fullgraph.render.json import dump_json

VERSION = 1
"""Version of the JSON format; it increases when keys change."""


def difference_json(difference: CheckDifference) -> str:
    """Format the differences of two checks as a JSON document, whose format number is
    ``VERSION``."""
    return dump_json(
        {
            "version": VERSION,
            "old": _side_json(difference.old),
            "new": _side_json(difference.new),
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
            "files": [_file_json(file) for file in difference.files],
        }
    )


def _side_json(compared: ComparedCheck) -> dict[str, Any]:
    return {
        "name": compared.name,
        "torch": compared.torch or None,
        "python": compared.python or None,
        "errors": list(compared.problems),
    }


def _file_json(file: FileDifference) -> dict[str, Any]:
    return {
        "path": file.path,
        "missing": file.missing,
        "errors": [_uncomputed_json(problem) for problem in file.problems],
        "targets": [
            {
                "name": target.name,
                "runs": [_change_json(run) for run in target.runs],
                "findings": [_change_json(finding) for finding in target.findings],
            }
            for target in file.targets
        ],
    }


def _change_json(change: RunDifference | FindingDifference) -> dict[str, Any]:
    return {
        "change": change.kind,
        "old": dataclasses.asdict(change.old) if change.old is not None else None,
        "new": dataclasses.asdict(change.new) if change.new is not None else None,
        "uncomputed": _uncomputed_json(change.uncomputed),
    }


def _uncomputed_json(uncomputed: Uncomputed | None) -> dict[str, str] | None:
    return dataclasses.asdict(uncomputed) if uncomputed is not None else None
