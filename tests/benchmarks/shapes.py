"""Compare the values that hints tell of with those of a real run, over many files.

    python shapes.py [--seconds N] FILE...

Each file is traced with fake tensors, once as its probe gives the call and once with its batch
dimensions symbolic. A copy of its code that notes every value where it is assigned, given or
returned is then run with real tensors and without Dynamo. What a place is said to have been, with
the size of the run for each symbol, must be what it was: dtypes, sizes and constants, in this
order. Files whose real run does not end in time are named and left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import select
import signal
import sys
import time
import traceback
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))

import torch

from fullgraph_engine import targets, tracing
from fullgraph_engine.findings import shapes
from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.findings.runs import batch_dimensions
from fullgraph_engine.tracing.describe import describe_tensor

NOTE = "__fullgraph_note__"
Place = tuple[str, int, int]
"""Role, line and byte, zero-based."""


class Instrument(ast.NodeTransformer):
    """Has a function called with the place and value of everything that may have a hint."""

    def _note(self, role: str, node: Any, value: ast.expr, line: int, byte: int) -> ast.expr:
        arguments = [ast.Constant(role), ast.Constant(line), ast.Constant(byte), value]
        call = ast.Call(ast.Name(NOTE, ast.Load()), arguments, [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _statements(self, target: ast.AST, role: str) -> list[ast.stmt]:
        return [
            ast.copy_location(ast.Expr(self._name(role, name)), name)
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        ]

    def _name(self, role: str, name: ast.Name) -> ast.expr:
        value = ast.Name(name.id, ast.Load())
        return self._note(role, name, value, name.lineno - 1, name.col_offset)

    def _assign(self, node: Any) -> Any:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        noted = [note for target in targets for note in self._statements(target, "assigned")]
        self.generic_visit(node)
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return node
        return [node, *noted]

    visit_Assign = visit_AugAssign = visit_AnnAssign = _assign

    def visit_For(self, node: ast.For) -> Any:
        noted = self._statements(node.target, "loop")
        self.generic_visit(node)
        node.body[:0] = noted
        return node

    def visit_With(self, node: ast.With) -> Any:
        noted = [
            note
            for item in node.items
            if item.optional_vars is not None
            for note in self._statements(item.optional_vars, "assigned")
        ]
        self.generic_visit(node)
        node.body[:0] = noted
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.generic_visit(node)
        target = node.target
        node.value = self._note("assigned", node, node.value, target.lineno - 1, target.col_offset)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if node.value is not None:
            value = node.value
            node.value = self._note("return", value, value, value.lineno - 1, value.col_offset)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        every += [one for one in (given.vararg, given.kwarg) if one is not None]
        noted = []
        for one in every:
            value = ast.Name(one.arg, ast.Load())
            note = self._note("parameter", one, value, one.lineno - 1, one.col_offset)
            noted.append(ast.copy_location(ast.Expr(note), one))
        self.generic_visit(node)
        node.body[:0] = noted
        return node


def described(value: Any) -> str | None:
    """In the words of hints; None for what has none."""
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if value is None or type(value) in (bool, int, float, str):
        words = repr(value)
        return words if len(words) <= 40 else f"{words[:39]}…"
    if isinstance(value, (tuple, list)) and 0 < len(value) <= 8:
        inner = [described(item) for item in value]
        brackets = "[]" if isinstance(value, list) else "()"
        comma = "," if len(inner) == 1 and brackets == "()" else ""
        words = ", ".join("…" if one is None else one for one in inner)
        return f"{brackets[0]}{words}{comma}{brackets[1]}"
    return None


def load(path: Path, code: Any) -> dict[str, Any]:
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    # Not by switching Dynamo off: functions called so would never be traced afterwards.
    with torch.compiler.set_stance("force_eager"):
        exec(code, module.__dict__)
    return module.__dict__


def compared(path: Path) -> dict[str, Any]:
    """What became of each place of a file, counted by kind of value."""
    text = path.read_text()
    namespace = load(path, compile(text, str(path), "exec"))
    source = SourceText(str(path), text)
    result: dict[str, Any] = {"as it is": Counter(), "symbolic": Counter(), "different": []}
    seen: list[tuple[str, int, str, tuple[Any, ...]]] = []
    order = []
    for target in targets.discover(text, str(path)).targets:
        if not targets.confirm(target, namespace):
            continue
        for number, probe in enumerate(targets.plan(target, namespace)):
            order.append((target, number))
            for way in ("as it is", "symbolic"):
                torch._dynamo.reset()
                with tracing.tensor_mode(True) as mode:
                    assert mode is not None
                    mode.begin()
                    torch.manual_seed(0)
                    call = probe.build(namespace)
                    wishes = batch_dimensions(call) if way == "symbolic" else []
                    if way == "symbolic" and not wishes:
                        continue
                    recording = tracing.trace(
                        call.function,
                        call.args,
                        call.kwargs,
                        dynamic=wishes,
                        symbols=["batch"] * len(wishes),
                        file=str(path),
                    )
                if recording.failure is not None:
                    raise RuntimeError(f"{target.name}: {recording.failure.message[:200]}")
                found = shapes.of_recording(recording, source)
                seen.append((target.name, number, way, found))
    tree = ast.fix_missing_locations(Instrument().visit(ast.parse(text)))
    real: dict[Place, list[str | None]] = {}

    def note(role: str, line: int, byte: int, value: Any) -> Any:
        real.setdefault((role, line, byte), []).append(described(value))
        return value

    code = compile(tree, str(path), "exec")
    torch._dynamo.reset()
    torch.set_num_threads(os.cpu_count() or 1)
    copy = load(path, "import torch")
    copy[NOTE] = note
    with torch.compiler.set_stance("force_eager"):
        exec(code, copy)
    for target, number in order:
        torch.manual_seed(0)
        call = targets.plan(target, copy)[number].build(copy)
        real.clear()
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            call.function(*call.args, **call.kwargs)
        for name, probe_number, way, found in seen:
            if (name, probe_number) == (target.name, number):
                compare(found, real, result[way], result["different"], way)
    return result


def compare(
    found: tuple[Any, ...],
    real: dict[Place, list[str | None]],
    counts: Counter[str],
    different: list[str],
    way: str,
) -> None:
    for place in found:
        if place.role == "expression":
            continue
        start = place.range.start
        was = real.get((place.role, start.line, start.byte), [])
        told: Counter[str] = Counter()
        for value in place.values:
            told[value.concrete or value.text] += value.count
        kinds = {value.kind for value in place.values}
        kind = kinds.pop() if len(kinds) == 1 else "several kinds"
        distinct = list(dict.fromkeys(was))
        if place.left_out:
            distinct = [*distinct[: len(told) - 1], distinct[-1]]
        fits = len(told) == len(distinct) and all(map(matches, told, distinct))
        counts[f"{kind} {'equal' if fits else 'different'}"] += 1
        if not fits:
            different.append(
                f"{way}: {start.line + 1}:{start.byte} {place.role} {place.name}: "
                f"{dict(told)} told, {dict(Counter(was))} real"
            )


def matches(told: str, real: str | None) -> bool:
    """Parts of a sequence of which nothing is known are told as ``…``."""
    parts = [re.escape(part) for part in told.split("…")]
    return real is not None and re.fullmatch(".+".join(parts), real) is not None


def forked(work: Callable[[Path], Any], path: Path, seconds: float) -> Any:
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            void = os.open(os.devnull, os.O_WRONLY)
            os.dup2(void, 1)
            os.dup2(void, 2)
            try:
                answer = work(path)
            except BaseException as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                words = f"{type(error).__name__}: {error}"[:300]
                answer = {"error": f"{words} ({Path(last.filename).name}:{last.lineno})"}
            with os.fdopen(go, "wb") as pipe:
                pipe.write(json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(go)
    parts = []
    until = time.monotonic() + seconds
    while select.select([come], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(come, 1 << 16)
        if not part:
            break
        parts.append(part)
    else:
        os.killpg(pid, signal.SIGKILL)
    os.close(come)
    os.waitpid(pid, 0)
    return json.loads(b"".join(parts)) if parts else {"error": "nothing came in time"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="most for one file")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tracing.warm()
    totals = {"as it is": Counter[str](), "symbolic": Counter[str]()}
    done = 0
    for path in options.files:
        result = forked(compared, path, options.seconds)
        if "error" in result:
            print(f"{path.name}: left out: {result['error']}", flush=True)
            continue
        done += 1
        for way, total in totals.items():
            total.update(result[way])
        print(f"{path.name}: {result['as it is']} {result['symbolic']}", flush=True)
        for words in result["different"]:
            print(f"    {words}", flush=True)
    print(f"{done} of {len(options.files)} files")
    for way, total in totals.items():
        equal = sum(count for words, count in total.items() if words.endswith(" equal"))
        print(f"{way}: {sum(total.values())} compared, {equal} equal: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
