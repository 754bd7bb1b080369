"""Compare two scripted agents, with and without fullgraph, on breaks and recompiles of packages.

Usage: ``python -m tests.benchmarks.agent_loops --python PYTHON [--minutes N] [--seed N]
PACKAGE ...``. Files of the packages, which PYTHON can import, are copied to a temporary folder and
checked in a random order. Each break or recompile of a target is a case if a plain run has it, too.

The agent with fullgraph calls the MCP tools ``check``, ``fix`` and ``verify``; without a fix, it
applies the hint of Dynamo that ``explain`` returns. The other agent runs the target under plain
torch.compile and applies the hint that ``TORCH_LOGS`` prints. Both apply a hint by
``apply_hints``, which makes only edits that a hint names. A fix is confirmed if a plain run has
fewer breaks and recompiles, and the results are the same as of the original.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))

from agents import Agent, Project, ToolFailed, agent_of_process, make_project  # noqa: E402

from fullgraph.mcp.diffs import apply_diff  # noqa: E402

_PRONE = re.compile(
    r"\.(?:item|tolist|numpy)\(\)|nonzero\(|(?:if|assert) .*(?:torch\.)?(?:any|all|sum|isnan)\("
    r"|^ +print\(|warnings\.warn\(|logger\.warn",
    re.MULTILINE,
)
"""Pattern of code that may break graphs; other files are not worth a check here."""
_LONGEST = 20_000
"""Maximum number of characters of a file."""
_BREAK = "Graph break in user code at "
_RECOMPILE = "Recompiling function "
_KINDS = ("graph-break/", "recompile/", "guard/mutated")
"""Beginnings of the codes of findings that a plain run can confirm."""
_CONFIG = re.compile(r"(torch\._dynamo\.config\.\w+ = (?:True|False|\d+))")


@dataclass(frozen=True)
class Case:
    """A target of a copied file with a graph break, and its inputs in the notation of probes."""

    file: Path
    target: str
    init: str
    inputs: str
    code: str


@dataclass
class Plain:
    """A plain run: its counts, the path of its eager results, what torch logged, and its time."""

    counts: dict[str, Any]
    results: Path
    log: str
    seconds: float


@dataclass
class Effort:
    """The work of one agent on all cases."""

    name: str
    edits: int = 0
    confirmed: int = 0
    wrong: int = 0
    calls: int = 0
    read: int = 0
    seconds: float = 0.0
    by_fix: int = 0
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.confirmed} confirmed ({self.by_fix} by a verified fix), "
            f"{self.edits} edits, {self.wrong} with other results, {self.calls} calls, "
            f"{self.read:,} bytes read, {self.seconds:.0f} s"
        )


def package_files(python: str, names: list[str]) -> list[tuple[str, Path]]:
    """Return the modules that may break graphs: their package, and their file.

    ``names`` are packages, whose modules are all meant, or single modules.
    """
    code = "import importlib.util as u, sys; out = sys.stdout; sys.stdout = sys.stderr; "
    code += "print(*(u.find_spec(n).origin for n in sys.argv[1:]), file=out)"
    found = subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=True)
    files = []
    for name, origin in zip(names, found.stdout.split(), strict=True):
        root = Path(origin).parent
        is_package = Path(origin).name == "__init__.py"
        for path in sorted(root.rglob("*.py")) if is_package else [Path(origin)]:
            package = ".".join([name, *path.relative_to(root).parts[:-1]])
            package = package if is_package else name.rpartition(".")[0]
            if package.startswith("transformers.models.") and package.split(".")[2] > "m":
                continue  # kept for other measurements
            text = path.read_text(errors="replace")
            if len(text) < _LONGEST and "def forward(" in text and _PRONE.search(text):
                files.append((package, path))
    return files


def resolve_imports(text: str, package: str) -> str:
    """Return the text of a module with absolute imports, so that it can be copied elsewhere."""

    def resolve(match: re.Match[str]) -> str:
        name = importlib.util.resolve_name(match[2] + match[3], package)
        return f"{match[1]}from {name} import"

    return re.sub(r"(?m)^([ \t]*)from (\.+)([\w.]*) import", resolve, text)


def find_cases(project: Project, options: argparse.Namespace, until: float) -> Iterator[Case]:
    """Yield the cases, checking one file after the other, until the time ``until``."""
    files = package_files(options.python, options.packages)
    random.Random(options.seed).shuffle(files)
    for number, (package, path) in enumerate(files):
        if time.monotonic() > until:
            return
        if f"checked {package}/{path.name}:" in options.skip:
            continue
        copied = project.folder / f"case{number}_{path.stem}.py"
        copied.write_text(resolve_imports(path.read_text(), package))
        command = [sys.executable, "-m", "fullgraph", "check", "--format", "json", "-q"]
        command += ["--effort", "quick", "--python", options.python, str(copied)]
        checked = subprocess.run(command, capture_output=True, text=True, cwd=project.folder)
        try:
            (report,) = json.loads(checked.stdout)["files"]
        except ValueError:
            continue
        print(f"   checked {package}/{path.name}: {len(report['findings'])} findings", flush=True)
        probes = {one["name"]: one["probe"] for one in report["targets"] if one["probe"]}
        codes = set()
        for finding in report["findings"]:
            probe = probes.get(finding["target"])
            code = finding["code"]
            if code.startswith(_KINDS) and probe and code not in codes:
                codes.add(code)
                yield Case(
                    copied,
                    finding["target"],
                    probe.get("init") or "",
                    probe.get("inputs") or "",
                    code,
                )


def run_plainly(case: Case, python: str, text: str | None = None) -> Plain | None:
    """Run the target of a case with plain torch; None if that fails. ``text`` is changed code."""
    file = case.file
    if text is not None:
        file = case.file.with_name(f"changed_{case.file.name}")
        file.write_text(text)
    out = case.file.with_suffix(".changed" if text is not None else ".original")
    out.unlink(missing_ok=True)
    command = [python, str(HERE / "plain_case.py"), str(file), case.target]
    environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles", "PYTHONPATH": ""}
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [*command, case.init, case.inputs, str(out)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
    except subprocess.TimeoutExpired as error:
        print(f"   plain run: {error.timeout:.0f} s were not enough", flush=True)
        return None
    if not out.exists():
        print(f"   plain run: {ended.stderr.strip().rpartition(chr(10))[2]}", flush=True)
        return None
    count = ended.stderr.count(_BREAK) + ended.stderr.count(_RECOMPILE)
    counts = {**json.loads(out.read_text()), "count": count}
    return Plain(counts, Path(f"{out}.pt"), ended.stderr, time.monotonic() - started)


def apply_hints(text: str, hints: str, line: int) -> str | None:
    """Return the text after the edit that hints name literally; None if they name none.

    ``line`` is the number of the line that breaks the graph, counted from 1.
    """
    setting = _CONFIG.search(hints)
    if setting is not None and setting[1] not in text:
        return insert_setting(text, setting[1])
    lines = text.split("\n")
    statement = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    called = re.match(r"([\w.]+)\(.*\)$", statement)
    if called is not None and "reorderable_logging_functions" in hints and called[1] == "print":
        return insert_setting(text, "torch._dynamo.config.reorderable_logging_functions.add(print)")
    removing = rf"(?i)\b(?:remove|avoid)\b[^.]*`{re.escape(called[1])}(?:\(\))?`" if called else ""
    if called is not None and re.search(removing, hints):
        lines[line - 1] = lines[line - 1].replace(statement, "pass")
        return "\n".join(lines)
    return None


def insert_setting(text: str, setting: str) -> str | None:
    """Return the text with a statement after ``import torch``."""
    changed, count = re.subn(
        r"(?m)^import torch$", f"import torch\nimport torch._dynamo\n{setting}", text, count=1
    )
    return changed if count else None


async def call(agent: Agent, effort: Effort, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool until it answers, and count the calls and bytes; an error is an empty answer."""
    started = time.monotonic()
    while True:
        effort.calls += 1
        try:
            answer = await agent.call(tool, **arguments)
        except ToolFailed as error:
            effort.read += len(str(error).encode())
            if "continues" in str(error):
                continue
            effort.notes.append(f"{tool}: {error}")
            return {}
        effort.notes.append(f"{tool}: {time.monotonic() - started:.0f} s")
        effort.read += len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())
        return answer


async def edit_with_fullgraph(agent: Agent, case: Case, effort: Effort) -> tuple[str | None, str]:
    """Return the text that an agent with fullgraph makes, and how: ``fix`` or ``hint``."""
    text, file = case.file.read_text(), case.file.name
    checked = await call(agent, effort, "check", file=file, target=case.target)
    finding = next((one for one in checked.get("findings", ()) if one["code"] == case.code), None)
    if finding is None:
        return None, "no finding"
    common = {"file": file, "target": case.target}
    found = await call(agent, effort, "fix", **common, finding=finding["id"], unsafe=True)
    how, after = "fix", None
    if found.get("diff"):
        after = apply_diff(text, found["diff"])
    else:
        how = "hint"
        explained = await call(agent, effort, "explain", **common, finding=finding["id"])
        line = int(finding["at"].split(":")[-2])
        after = apply_hints(text, "\n".join(explained.get("hints", ())), line)
    if after is None:
        return None, "no edit"
    verified = await call(agent, effort, "verify", **common, changed=after)
    behavior = verified.get("behavior", ())
    effort.notes.append(f"verify: {verified.get('verdict', '')}")
    rejected = any("differs" in (one["outcome"], one.get("compiled")) for one in behavior)
    return (None, f"rejected {how}") if rejected else (after, how)


def edit_with_logs(case: Case, effort: Effort, plain: Plain) -> str | None:
    """Return the text that an agent makes from the log of a plain run, which is its only call."""
    add_run(effort, plain)
    breaks = case.code.startswith("graph-break/")
    page = f"/{case.code.rpartition('/')[2].lower()}.html" if breaks else ""
    parts = plain.log.split(_BREAK if breaks else _RECOMPILE)[1:]
    if not parts:
        return None
    logged = next((one for one in parts if page in one), parts[0])
    place = re.match(r"(.+?):(\d+)", logged)
    line = int(place[2]) if place and place[1] == str(case.file) else 0
    return apply_hints(case.file.read_text(), logged, line)


def add_run(effort: Effort, plain: Plain | None) -> None:
    """Count a plain run as a call of an agent, which reads its log."""
    effort.calls += 1
    if plain is not None:
        effort.read += len(plain.log.encode())
        effort.seconds += plain.seconds


def is_confirmed(before: Plain, after: Plain | None, python: str) -> tuple[bool, bool]:
    """Return whether a plain run has fewer breaks and recompiles with the same results, and whether
    the results are others.
    """
    if after is None:
        return False, True
    code = (
        "import sys, torch, plain_case; "
        "a, b = (torch.load(p, weights_only=False) for p in sys.argv[1:]); "
        "sys.exit(not plain_case.same_results(a, b))"
    )
    equal = subprocess.run(
        [python, "-c", code, str(before.results), str(after.results)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    same = equal.returncode == 0 and after.counts["same"]
    return same and after.counts["count"] < before.counts["count"], not same


def note_edit(effort: Effort, before: Plain, run: Plain | None, how: str, python: str) -> str:
    """Add an edit, with the plain run after it, to the counts, and return words about it."""
    effort.edits += 1
    confirmed, other = is_confirmed(before, run, python)
    effort.confirmed += confirmed
    effort.wrong += other
    effort.by_fix += confirmed and how == "fix"
    count = run.counts["count"] if run is not None else "failed"
    return f"{how}: {before.counts['count']} → {count}{', other results' if other else ''}"


async def compare_agents(options: argparse.Namespace) -> None:
    """Work on cases until the time is up, and print what each agent did."""
    with_mcp, with_logs = Effort("MCP"), Effort("TORCH_LOGS")
    cases, unusable = 0, 0
    until = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        project.interpreter = Path(options.python)
        project.environment = {**project.environment, "FULLGRAPH_ENGINE_KEEP": "1"}
        os.environ.update(project.environment, XDG_CACHE_HOME=folder)
        async with agent_of_process(project) as agent:
            for case in find_cases(project, options, until):
                before = run_plainly(case, options.python)
                if before is None or not before.counts["count"] or not before.counts["same"]:
                    unusable += 1
                    why = "no run" if before is None else str(before.counts)
                    print(f"   left out: {case.file.name} {case.target}: {why}", flush=True)
                    continue
                cases += 1
                with_mcp.notes.clear()
                started = time.monotonic()
                after, words = await edit_with_fullgraph(agent, case, with_mcp)
                with_mcp.seconds += time.monotonic() - started
                edited, run = edit_with_logs(case, with_logs, before), None
                if after is not None:
                    run = run_plainly(case, options.python, after)
                    words = note_edit(with_mcp, before, run, words, options.python)
                other = "no edit"
                if edited is not None:
                    if edited != after:
                        run = run_plainly(case, options.python, edited)
                    add_run(with_logs, run)
                    other = note_edit(with_logs, before, run, "hint", options.python)
                print(f"{cases}. {case.file.name} {case.target} {case.code}", flush=True)
                print(f"     MCP: {words}; TORCH_LOGS: {other}", flush=True)
                print(f"     {'; '.join(with_mcp.notes)}", flush=True)
                if cases % 5 == 0:
                    print(with_mcp, with_logs, sep="\n", flush=True)
    print(f"{cases} cases, {unusable} left out (no plain run with them and equal results)")
    print(with_mcp, with_logs, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--skip",
        type=lambda name: Path(name).read_text(),
        default="",
        metavar="OUTPUT",
        help="file with the output of an earlier run, whose files are not checked again",
    )
    parser.add_argument("packages", nargs="+")
    asyncio.run(compare_agents(parser.parse_args()))


if __name__ == "__main__":
    main()
