"""How small repros get, in how many tries, and whether they show what they should.

python tests/benchmarks/repros.py [CASE | FILE.py | FOLDER]... [--code CODE] [--seconds 30]
                                  [--keep FOLDER] [--beside shrinkray] [--cut 600]

Without arguments it takes all cases of tests/fixtures/repros, see tests/engine/planted.py. Of files
and folders it takes the findings that an analysis has. One warm engine host makes them one after
the other; each script is then run in a new Python and has to exit 1. Times mean something on a
machine that has nothing else to do.

``--beside`` names shrinkray's command (``pip install shrinkray``, it is no dependency of this
project). It is given the whole file with a call of the target below it, and is asked for a program
that exits as it does because of the same break, each in a Python of its own. ``--cut`` is after how
many seconds it is broken off.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

import planted
from reproducing import Host, Reproduction

from fullgraph_engine.protocol import Finding
from fullgraph_engine.repro.reduce import count_lines, format_program

FAMILIES = ("graph-break/", "frame-skipped/", "op/", "recompile/", "guard/specialized", "trace/")
BESIDE = (
    "print_in_wrapper",
    "retry_where_not_finite",
    "letters_without_repetition",
    "packed_sequence",
)
"""Cases of one file whose target needs no more than a call below it."""


@dataclass(frozen=True)
class Row:
    name: str
    finding: Finding
    before: int
    made: Reproduction
    again: bool

    @property
    def lines(self) -> int:
        return self.made.found.lines if self.made.found is not None else 0


def main() -> None:
    options = parsed()
    if options.beside:
        beside(options)
        return
    host, rows = Host(), []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, before, finding in wanted(host, options, Path(folder)):
            if isinstance(finding, str):
                print(f"{name:32} {finding}", flush=True)
                continue
            made = host.reproduce(path, finding, options.seconds)
            row = Row(name, finding, before, made, runs(made))
            rows.append(row)
            say(row)
            if options.keep:
                keep(row, options.keep)
    host.close()
    summary(rows)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="*", help="cases, files, folders; all cases if none")
    parser.add_argument("--code", default="", help="only findings whose code begins so")
    parser.add_argument("--seconds", type=float, default=30.0, help="time budget of each")
    parser.add_argument("--keep", type=Path, help="write the scripts to this folder")
    parser.add_argument("--beside", default="", help="the command of shrinkray")
    parser.add_argument("--cut", type=float, default=600.0, help="longest that it may take")
    return parser.parse_args()


# -- what is reproduced -----------------------------------------------------------------------


def wanted(
    host: Host, options: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, Path, int, Finding | str]]:
    """Name, file, its lines, and the finding, or why there is none."""
    names = [each for each in options.what if not Path(each).exists()]
    for case in planted.cases(*names) if names or not options.what else []:
        path = case.write(folder / case.name)
        try:
            yield case.name, path, case.lines, planted.expected(host.findings, case, path)
        except planted.BadCase as error:
            yield case.name, path, case.lines, str(error)
    for each in options.what:
        files = sorted(Path(each).rglob("*.py")) if Path(each).is_dir() else [Path(each)]
        for path in files if Path(each).exists() else []:
            lines = path.read_text(encoding="utf-8").count("\n")
            for finding in host.findings(path, parts=planted.PARTS[:2]):
                if finding.code.startswith(FAMILIES) and finding.code.startswith(options.code):
                    yield f"{path.name}:{finding.range.start.line + 1}", path, lines, finding


# -- what came of it --------------------------------------------------------------------------


def runs(made: Reproduction) -> bool:
    """Whether the script shows it once more, in a Python of its own."""
    if made.found is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(made.found.script, encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, cwd=folder
        )
    return ended.returncode == 1 and "Looked for " in ended.stdout


def say(row: Row) -> None:
    outcome = "again" if row.again else "verified" if row.made.verified else "-"
    print(
        f"{row.name:32} {row.finding.code:28} {row.before:5} -> {row.lines:3} lines "
        f"{row.made.seconds:6.1f} s {row.made.tried:5} tried  {outcome:8} {row.made.reason[:90]}",
        flush=True,
    )


def keep(row: Row, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{row.name}-{row.finding.code.replace('/', '-')}".replace(":", "-")
    if row.made.found is not None:
        (folder / f"{name}.py").write_text(row.made.found.script, encoding="utf-8")
    words = [row.made.reason, row.made.log]
    if row.made.found is not None:
        words += [*row.made.found.notes, row.made.found.output]
    (folder / f"{name}.txt").write_text("\n".join(words), encoding="utf-8")


def summary(rows: list[Row]) -> None:
    if not rows:
        return
    good = [row for row in rows if row.again and row.made.verified]
    print(f"\n{len(good)} of {len(rows)} reproduce ({100 * len(good) / len(rows):.0f} %)")
    if len(good) > 1:
        lines = sorted(row.lines for row in good)
        print(
            f"lines: median {statistics.median(lines):g}, "
            f"90th percentile {statistics.quantiles(lines, n=10)[-1]:g}, most {lines[-1]}"
        )
        print(f"seconds: median {statistics.median(row.made.seconds for row in good):.1f}")
        print(f"tried: median {statistics.median(row.made.tried for row in good):g}")


# -- beside another reducer -------------------------------------------------------------------

_TEST = """#!{python}
import contextlib, io, os, runpy, signal, sys, tempfile
signal.alarm(60)
text = sys.stdin.read()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "candidate.py")
    open(path, "w").write(text)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            pass
torch = sys.modules.get("torch")
if torch is None:
    sys.exit(1)
import torch._dynamo
reasons = [r for c in torch._dynamo.utils.counters.values() for r in c]
sys.exit(not any({kind!r} in r for r in reasons))
"""


def beside(options: argparse.Namespace) -> None:
    """Ours and shrinkray on the same files."""
    host = Host()
    for name in options.what or BESIDE:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            case = planted.cases(name)[0]
            path = case.write(folder)
            finding = planted.expected(host.findings, case, path)
            made = host.reproduce(path, finding, options.seconds)
            if made.found is None:
                print(name, made.reason)
                continue
            ours = program_of(made.found.script)
            theirs, seconds, cut = shrunk(options, path, finding, folder)
            least = "at least " if cut else ""
            print(
                f"{name:32} ours {described(ours)}, {made.seconds:.1f} s; "
                f"shrinkray {described(theirs)}, {least}{seconds:.0f} s "
                f"({least}{seconds / made.seconds:.0f} x)",
                flush=True,
            )
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{name}-ours.py").write_text(ours, encoding="utf-8")
                (options.keep / f"{name}-shrinkray.py").write_text(theirs, encoding="utf-8")
    host.close()


def shrunk(
    options: argparse.Namespace, path: Path, finding: Finding, folder: Path
) -> tuple[str, float, bool]:
    """What shrinkray makes of a file, in how many seconds, and whether it was cut off."""
    start, test = folder / "start.py", folder / "test.py"
    start.write_text(with_call(path.read_text(encoding="utf-8"), finding.target))
    test.write_text(_TEST.format(python=sys.executable, kind=finding.evidence.title))
    test.chmod(0o755)
    began = time.monotonic()
    process = subprocess.Popen(
        [options.beside, *_SETTINGS, str(test), str(start)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=True,
    )
    cut = False
    try:
        process.wait(options.cut)
    except subprocess.TimeoutExpired:
        cut = True
    seconds = time.monotonic() - began
    if cut:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return start.read_text(encoding="utf-8"), seconds, cut


_SETTINGS = (
    *("--timeout", "60", "--parallelism", "2", "--input-type", "stdin"),
    *("--ui", "basic", "--formatter", "none", "--no-history"),
)
_CALLS = {
    "UNet": "UNet(), (torch.randn(2, 3, 16, 16), torch.ones(2, dtype=torch.int64))",
    "Speech": "Speech(), (torch.randn(2, 160),)",
}


def with_call(text: str, target: str) -> str:
    entry, _, given = _CALLS[target].partition(", ")
    return f'{text}\n\ntorch.compile({entry}, backend="eager")(*{given})\n'


def program_of(script: str) -> str:
    """What of a script is no header and no check."""
    tree = ast.parse(script)
    body = [node for node in tree.body if ast.unparse(node) != "import sys"]
    last = body[-1]
    if isinstance(last, ast.Try):
        body[-1:] = last.body
    return format_program("\n".join(ast.unparse(node) for node in body))


def described(program: str) -> str:
    try:
        nodes = sum(1 for _ in ast.walk(ast.parse(program)))
    except SyntaxError:
        return f"{len(program)} characters"
    return f"{count_lines(format_program(program))} lines, {nodes} nodes"


if __name__ == "__main__":
    main()
