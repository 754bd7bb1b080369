"""Compare ``fullgraph check`` with plain runs of programs: what is found, and how long both take.

``python programs.py FOLDER…``: each folder holds programs, or folders with one program each: the
file with a ``__main__`` block, or the only one. Programs that fail to import something are left
out.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FULLGRAPH = [sys.executable, "-m", "fullgraph", "check", "--format", "json", "--no-cache"]


def programs(folder: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each program of a folder with the files to check."""
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py":
            yield entry, [entry]
        elif entry.is_dir():
            files = sorted(entry.rglob("*.py"))
            mains = [one for one in files if one.stem in ("main", "train")]
            mains += [one for one in files if "__main__" in one.read_text()]
            mains = mains or files
            if mains:
                yield mains[0], [mains[0], *(file for file in files if file != mains[0])]


def run_timed(command: list[str], folder: Path, **env: str) -> tuple[float, float]:
    """Wall and processor seconds of a command, ended after five minutes, and of its processes."""
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["timeout", "300", *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "2", "FULLGRAPH_ENGINE_KEEP": "0", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    wall = time.monotonic() - began
    total = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, total.ru_utime + total.ru_stime - used.ru_utime - used.ru_stime


def compare(program: Path, files: list[Path], scratch: Path) -> dict[str, Any] | None:
    """The figures of one program; None where its plain run has none."""
    plain_file, check_file = scratch / "plain.json", scratch / "check.json"
    for file in (plain_file, check_file):
        file.unlink(missing_ok=True)
    script = str(HERE / "plain_program.py")
    plain = [sys.executable, script, str(plain_file), program.name]
    plain_wall, plain_processor = run_timed(plain, program.parent)
    names = [str(file) for file in files]
    checked = [*FULLGRAPH, "-o", str(check_file), *names]
    check_wall, check_processor = run_timed(checked, program.parent)
    if not plain_file.exists() or not check_file.exists():
        return None
    truth, check = json.loads(plain_file.read_text()), json.loads(check_file.read_text())
    if truth["raised"] in ("ModuleNotFoundError", "ImportError"):
        return None
    findings = [(file["path"], one) for file in check["files"] for one in file["findings"]]
    broken = [
        (path, one["range"]["start"]["line"] + 1, one["range"]["end"]["line"] + 1)
        for path, one in findings
        if one["code"].startswith("graph-break/")
    ]
    hit = [
        (path, line)
        for path, line in truth["breaks"]
        if any(path == where and first <= line <= last for where, first, last in broken)
    ]
    true = [
        place
        for place in broken
        if any(place[0] == path and place[1] <= line <= place[2] for path, line in truth["breaks"])
    ]
    messages = [one["message"] for _, one in findings]
    recompiled = {words.split("`")[1] for words in messages if "` was recompiled" in words}
    functions = {name for _, name in truth["recompiled"]}
    codes = {one["code"].split("/")[0] for _, one in findings}
    eventful = bool(truth["breaks"] or truth["recompiled"] or truth["raised"])
    return {
        "breaks": len(truth["breaks"]),
        "breaks found": len(hit),
        "breaks reported": len(broken),
        "breaks right": len(true),
        "recompiling": len(functions),
        "recompiling found": len(functions & recompiled),
        "clean, falsely": int(eventful and not codes - {"probe"}),
        "plain": plain_wall,
        "check": check_wall,
        "plain, processor": plain_processor,
        "check, processor": check_processor,
    }


def main(folders: list[str]) -> None:
    total: Counter[str] = Counter()
    ratios: dict[str, list[float]] = {"": [], ", processor": []}
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            for program, files in programs(Path(folder).resolve()):
                row = compare(program, files, Path(scratch))
                if row is None:
                    print(f"{program.parent.name}/{program.name}: left out", flush=True)
                    continue
                total.update(row)
                for clock, values in ratios.items():
                    values.append(row["check" + clock] / row["plain" + clock])
                words = ", ".join(
                    f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in row.items()
                )
                print(f"{program.parent.name}/{program.name}: {words}", flush=True)
    if not ratios[""]:
        raise SystemExit("There is no program in these folders.")
    print(
        f"\n{len(ratios[''])} programs\n"
        f"breaks found {total['breaks found']} of {total['breaks']}, "
        f"right {total['breaks right']} of {total['breaks reported']}\n"
        f"recompiling functions found {total['recompiling found']} of {total['recompiling']}\n"
        f"falsely clean {total['clean, falsely']}\n"
        f"check {total['check']:.0f} s, plain runs {total['plain']:.0f} s, "
        f"median ratio {statistics.median(ratios['']):.2f}, "
        f"of processor time {statistics.median(ratios[', processor']):.2f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
