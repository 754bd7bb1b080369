"""How many graph breaks Dynamo reports, in how many findings, and of how many causes.

    for file in FILES…; do
        timeout 120 fullgraph check --format json $file > found/$(basename $file).json
    done
    python tests/benchmarks/causes.py found/*.json

A report may be of any number of files; one that is not complete, as that of a check that was
stopped, is left out. Prints the files with the most breaks, and the sums of these: breaks that
Dynamo reported in all runs of all targets, findings that come of them, and what is shown in full
(``docs/causes.md``): the first place of each cause.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

BREAKS = ("graph-break/", "frame-skipped/")


def counted(file: dict[str, Any]) -> tuple[int, int, int]:
    """Breaks, findings and what is shown of one file."""
    findings = [one for one in file["findings"] if one["code"].startswith(BREAKS)]
    reported = sum(target["breaks"] + target["skips"] for target in file["targets"])
    known: set[str] = set()
    shown = 0
    for finding in findings:
        causes = {cause["identity"] for cause in finding["causes"]}
        shown += not causes or not causes <= known
        known |= causes
    return reported, len(findings), shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=50, help="files that are printed")
    options = parser.parse_args()
    files: dict[str, dict[str, Any]] = {}
    for report in options.reports:
        with contextlib.suppress(json.JSONDecodeError):
            files.update((one["path"], one) for one in json.loads(report.read_text())["files"])
    rows = [(*counted(file), Path(file["path"]).name) for file in files.values()]
    rows = sorted((row for row in rows if row[0]), reverse=True)[: options.most]
    print(f"{len(files)} files; of these {len(rows)} with the most breaks")
    print("reported  findings  shown")
    for reported, findings, shown, name in rows:
        print(f"{reported:8}  {findings:8}  {shown:5}  {name}")
    reported, findings, shown = (sum(row[at] for row in rows) for at in range(3))
    print(f"{reported:8}  {findings:8}  {shown:5}  together")


if __name__ == "__main__":
    main()
