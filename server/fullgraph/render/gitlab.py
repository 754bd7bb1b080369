"""Format findings as a code quality report of GitLab, which shows new findings in merge
requests."""

from __future__ import annotations

from typing import Any

from fullgraph.domain.codes import Severity
from fullgraph.domain.wording import message_lines
from fullgraph.render.checked import CheckResults
from fullgraph.render.fingerprints import number_repeated, stable_fingerprint
from fullgraph.render.json import dump_json

_SEVERITIES = {
    Severity.ERROR: "major",
    Severity.WARNING: "minor",
    Severity.INFORMATION: "info",
    Severity.HINT: "info",
}


def check_gitlab(checked: CheckResults) -> str:
    """Format the findings of a check as a JSON list in GitLab's code quality format.

    Fingerprints do not change when the line of a finding moves. The format cannot represent
    problems of the check; the exit status reports them.
    """
    entries: list[dict[str, Any]] = []
    for file in checked.files:
        fingerprints = number_repeated(stable_fingerprint(file, item) for item in file.findings)
        for item, fingerprint in zip(file.findings, fingerprints, strict=True):
            finding = item.finding
            entries.append(
                {
                    "description": " ".join(message_lines(finding)),
                    "check_name": finding.code,
                    "fingerprint": fingerprint,
                    "severity": _SEVERITIES.get(item.severity, "info"),
                    "location": {
                        "path": file.path,
                        "lines": {"begin": finding.range.start.line + 1},
                    },
                }
            )
    return dump_json(entries)
