"""Compare the values that hints tell of with those of a real run, over many files.

    python shapes.py [--expressions] [--seconds N] [--memory GIB] [--keep RESULTS] FILE...

Each file is traced with fake tensors, once as its probe gives the call and once with its batch
dimensions symbolic. A copy of its code that notes every value where it is assigned, given or
returned is then run with real tensors and without Dynamo. What a place is said to have been, with
the size of the run for each symbol, must be what it was: dtypes, sizes and constants, in this
order. Files whose real run does not end in time are named and left out.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))

import survey
import torch

from fullgraph_engine import targets, tracing
from fullgraph_engine.findings import shapes
from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.findings.runs import batch_dimensions
from fullgraph_engine.tracing.describe import describe_tensor

NOTE = "__fullgraph_note__"
Place = tuple[str, int, int, int, int]
"""Role, then line and byte of both ends, zero-based; of a name only its beginning."""

NOT_VALUES = (ast.Constant, ast.Starred, ast.Slice, ast.JoinedStr, ast.FormattedValue)


class Instrument(ast.NodeTransformer):
    """Has a function called with the place and value of everything that may have a hint, and of
    every expression in a function if these are wanted."""

    def __init__(self, expressions: bool) -> None:
        self._expressions = expressions
        self._depth = 0

    def visit(self, node: ast.AST) -> Any:
        inner = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        self._depth += inner
        wanted = (
            self._expressions
            and self._depth > inner
            and isinstance(node, ast.expr)
            and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            and not isinstance(node, NOT_VALUES)
        )
        result = super().visit(node)
        self._depth -= inner
        if not wanted:
            return result
        end = node.end_lineno - 1, node.end_col_offset
        return self._note("expression", node, result, node.lineno - 1, node.col_offset, end)

    def visit_match_case(self, node: Any) -> Any:
        pattern, node.pattern = node.pattern, ast.Pass()  # what is in it are no expressions
        self.generic_visit(node)
        node.pattern = pattern
        return node

    def _note(
        self,
        role: str,
        node: Any,
        value: ast.expr,
        line: int,
        byte: int,
        end: tuple[int, int] = (0, 0),
    ) -> ast.expr:
        place = ast.Tuple([ast.Constant(part) for part in (role, line, byte, *end)], ast.Load())
        call = ast.Call(ast.Name(NOTE, ast.Load()), [place, value], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _statements(self, targets: list[Any], role: str) -> list[ast.stmt]:
        """What notes the names that were just assigned, from left to right.

        Where one is assigned twice, as in ``_, n, _ = x.shape``, all but the last value would be
        gone by then: they are given names of ours.
        """
        names = [
            name
            for target in targets
            for name in _from_left(target)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        ]
        last = {name.id: name for name in names}
        notes: list[ast.stmt] = []
        for number, name in enumerate(names):
            if last[name.id] is not name:
                name.id = f"{NOTE}{number}"
            notes.append(ast.copy_location(ast.Expr(self._name(role, name)), name))
        return notes

    def _name(self, role: str, name: ast.Name) -> ast.expr:
        value = ast.Name(name.id, ast.Load())
        return self._note(role, name, value, name.lineno - 1, name.col_offset)

    def _assign(self, node: Any) -> Any:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        noted = self._statements(targets, "assigned")
        self.generic_visit(node)
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return node
        return [node, *noted]

    visit_Assign = visit_AugAssign = visit_AnnAssign = _assign

    def visit_For(self, node: ast.For) -> Any:
        noted = self._statements([node.target], "loop")
        self.generic_visit(node)
        node.body[:0] = noted
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        noted = self._statements([node.target], "loop")
        self.generic_visit(node)
        # A tuple of something is true, whatever that says of itself.
        values = [note.value for note in noted if isinstance(note, ast.Expr)]
        if values:
            node.ifs.insert(0, ast.copy_location(ast.Tuple(values, ast.Load()), values[0]))
        return node

    def visit_With(self, node: ast.With) -> Any:
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        noted = self._statements(targets, "assigned")
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
        noted: list[ast.stmt] = [
            ast.copy_location(ast.Expr(note), note) for note in self._parameters(node.args)
        ]
        self.generic_visit(node)
        node.body[:0] = noted
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        noted = self._parameters(node.args)
        self.generic_visit(node)
        if noted:
            every = ast.Tuple([*noted, node.body], ast.Load())
            node.body = ast.Subscript(every, ast.Constant(-1), ast.Load())
            ast.fix_missing_locations(ast.copy_location(node.body, every.elts[-1]))
        return node

    def _parameters(self, given: ast.arguments) -> list[ast.expr]:
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        every += [one for one in (given.vararg, given.kwarg) if one is not None]
        return [
            self._note(
                "parameter", one, ast.Name(one.arg, ast.Load()), one.lineno - 1, one.col_offset
            )
            for one in every
        ]


def _from_left(target: ast.AST) -> Iterator[ast.AST]:
    yield target
    for child in ast.iter_child_nodes(target):
        yield from _from_left(child)


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


def assignments_compared(file: str) -> dict[str, Any]:
    return compared(file, expressions=False)


def all_compared(file: str) -> dict[str, Any]:
    return compared(file, expressions=True)


def compared(file: str, expressions: bool) -> dict[str, Any]:
    """What became of each place of a file, counted by kind of value."""
    path = Path(file)
    text = path.read_text()
    namespace = load(path, compile(text, str(path), "exec"))
    source = SourceText(str(path), text)
    result: dict[str, Any] = {"as it is": Counter(), "symbolic": Counter(), "different": []}
    seen: list[tuple[str, int, str, tuple[Any, ...]]] = []
    order = []
    for target in targets.discover(text, str(path)).targets:
        if not targets.is_confirmed(target, namespace):
            continue
        for number, probe in enumerate(targets.plan_probes(target, namespace)):
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
                found = shapes.seen_shapes(recording, source)
                seen.append((target.name, number, way, found))
    tree = ast.fix_missing_locations(Instrument(expressions).visit(ast.parse(text)))
    real: dict[Place, list[str | None]] = {}

    def note(place: Place, value: Any) -> Any:
        real.setdefault(place, []).append(described(value))
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
        call = targets.plan_probes(target, copy)[number].build(copy)
        real.clear()
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            call.function(*call.args, **call.kwargs)
        for name, probe_number, way, found in seen:
            if (name, probe_number) == (target.name, number):
                told = [one for one in found if expressions or one.role != "expression"]
                compare(told, real, result[way], result["different"], way)
    return result


def compare(
    found: list[Any],
    real: dict[Place, list[str | None]],
    counts: Counter[str],
    different: list[str],
    way: str,
) -> None:
    for place in found:
        start, end = place.range.start, place.range.end
        ends = (end.line, end.byte) if place.role == "expression" else (0, 0)
        was = real.get((place.role, start.line, start.byte, *ends), [])
        told: Counter[str] = Counter()
        for value in place.values:
            told[value.concrete or value.text] += value.count
        kinds = {value.kind for value in place.values}
        kind = kinds.pop() if len(kinds) == 1 else "several kinds"
        distinct = list(dict.fromkeys(words for words in was if words is not None))
        if place.left_out:
            distinct = [*distinct[: len(told) - 1], distinct[-1]]
        fits = len(told) == len(distinct) and all(map(matches, told, distinct))
        counts[f"{kind} {'equal' if fits else 'different'}"] += 1
        if not fits:
            different.append(
                f"{way}: {start.line + 1}:{start.byte} {place.role} {place.name}: "
                f"{dict(told)} told, {dict(Counter(was))} real"
            )


def matches(told: str, real: str) -> bool:
    """Parts of a sequence of which nothing is known are told as ``…``."""
    parts = [re.escape(part) for part in told.split("…")]
    return re.fullmatch(".+".join(parts), real) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    survey.options(parser, seconds=60.0)
    parser.add_argument("--expressions", action="store_true", help="compare also what hover tells")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tracing.warm_up()
    totals = {"as it is": Counter[str](), "symbolic": Counter[str]()}
    done = 0
    work = all_compared if options.expressions else assignments_compared
    for path, result in survey.survey(work, options):
        name = Path(path).name
        if "error" in result:
            print(f"{name}: left out: {result['error']}", flush=True)
            continue
        done += 1
        for way, total in totals.items():
            total.update(result[way])
        print(f"{name}: {result['as it is']} {result['symbolic']}", flush=True)
        for words in result["different"]:
            print(f"    {words}", flush=True)
    print(f"{done} of {len(options.files)} files")
    for way, total in totals.items():
        equal = sum(count for words, count in total.items() if words.endswith(" equal"))
        print(f"{way}: {sum(total.values())} compared, {equal} equal: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
