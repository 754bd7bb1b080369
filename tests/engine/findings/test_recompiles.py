"""What fails and recompiles here is what fails and recompiles under ``TORCH_LOGS``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.real_engine
ENGINE = Path(__file__).parents[3] / "engine"


@dataclass(frozen=True)
class Case:
    """A function ``f``, and two calls of it between which a guard fails."""

    name: str
    setup: str
    first: str
    second: str
    between: str = ""
    families: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


CASES = (
    Case(
        "size",
        "def f(x): return x + 1",
        "f(torch.ones(4, 8))",
        "f(torch.ones(5, 8))",
        families=("size",),
        words=("`x.shape[0]` was 4, now 5",),
    ),
    Case(
        "several",
        "def f(x, n, flag): return (x + n) if flag else x - n",
        "f(torch.ones(4, 8), 2, True)",
        "f(torch.ones(4, 9), 3, False)",
        families=("size", "value", "value"),
        words=(
            "`n` was 2, now 3",
            "`x.shape[1]` was 8, now 9",
            "`flag` was True, now False",
        ),
    ),
    Case(
        "dtype",
        "def f(x): return x + 1",
        "f(torch.ones(4))",
        "f(torch.ones(4, dtype=torch.float64))",
        families=("tensor",),
        words=("`x.dtype` was torch.float32, now torch.float64",),
    ),
    Case(
        "requires_grad",
        "def f(x): return x + 1",
        "f(torch.ones(4))",
        "f(torch.ones(4, requires_grad=True))",
        families=("tensor",),
        words=("`x.requires_grad` was False, now True",),
    ),
    Case(
        "stride",
        "def f(x): return x + 1",
        "f(torch.ones(4, 4))",
        "f(torch.ones(4, 4).t())",
        families=("tensor", "tensor"),
        words=("`x.stride(0)` was 4, now 1", "`x.stride(1)` was 1, now 4"),
    ),
    Case(
        "rank",
        "def f(x): return x + 1",
        "f(torch.ones(4, 4))",
        "f(torch.ones(4))",
        families=("size",),
        words=("`x.dim()` was 2, now 1",),
    ),
    Case(
        "float",
        "def f(x, a): return x if a > 0.5 else x * a",
        "f(torch.ones(4) + 1, 0.25)",
        "f(torch.ones(4) + 1, 0.125)",
        families=("value",),
        words=("`a` was 0.25, now 0.125",),
    ),
    Case(
        "string",
        "def f(x, how): return x.sum() if how == 'sum' else x.mean()",
        "f(torch.ones(4), 'sum')",
        "f(torch.ones(4), 'mean')",
        families=("value",),
        words=("`how` was 'sum', now 'mean'",),
    ),
    Case(
        "none",
        "def f(x, mask=None): return x + 1 if mask is None else x * mask",
        "f(torch.ones(4))",
        "f(torch.ones(4), torch.ones(4))",
        families=("type",),
        words=("`mask` was None, now Tensor",),
    ),
    Case(
        "length",
        "def f(xs): return sum(xs)",
        "f([torch.ones(4)] * 2)",
        "f([torch.ones(4)] * 3)",
        families=("structure",),
        words=("`len(xs)` was 2, now 3",),
    ),
    Case(
        "keys",
        "def f(d): return d['a'] + 1 if 'b' not in d else d['a'] + d['b']",
        "f({'a': torch.ones(4)})",
        "f({'a': torch.ones(4), 'b': torch.ones(4)})",
        families=("structure",),
    ),
    Case(
        "global",
        "SCALE = 2\ndef f(x): return x * SCALE",
        "f(torch.ones(4))",
        "f(torch.ones(4))",
        between="SCALE = 3",
        families=("value",),
        words=("`SCALE` was 2, now 3",),
    ),
    Case(
        "attribute",
        """
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0
            def forward(self, x):
                return x * self.calls
        f = M()
        """,
        "f(torch.ones(4))",
        "f(torch.ones(4))",
        between="f.calls = 7",
        families=("value",),
        words=("`self.calls` was 0, now 7",),
    ),
    Case(
        "training",
        "f = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())",
        "f(torch.ones(2, 4))",
        "f(torch.ones(2, 4))",
        between="f.eval()",
        families=("value",),
        words=(".training` was True, now False",),
    ),
    Case(
        "grad_mode",
        "def f(x): return x + 1",
        "f(torch.ones(4))",
        "f(torch.ones(4))",
        between="torch.set_grad_enabled(False)",
        families=("mode",),
        words=("grad mode changed",),
    ),
    Case(
        "closure",
        """
        def make(n):
            return lambda x: x + n
        g = make(2)
        def f(x, h): return h(x) + 1
        """,
        "f(torch.ones(4), make(2))",
        "f(torch.ones(4), make(3))",
        families=("value",),
    ),
    Case(
        "object",
        "def f(x, act): return act(x)",
        "f(torch.ones(4), torch.relu)",
        "f(torch.ones(4), torch.sigmoid)",
        families=("identity",),
        words=("`act` is a different object",),
    ),
    Case(
        "arguments",
        "def f(*xs): return sum(xs)",
        "f(torch.ones(4))",
        "f(torch.ones(4), torch.ones(4))",
        families=("structure",),
        words=("`len(xs)` was 1, now 2",),
    ),
    Case(
        "condition",
        "def f(x): return x + 1 if x.shape[0] > 6 else x - 1",
        "(torch._dynamo.decorators.maybe_mark_dynamic(t := torch.ones(4), 0), f(t))",
        "f(torch.ones(8))",
        families=("size",),
    ),
)

_OURS = """
watch = recorder.Recorder()
with watch.listen():
    {first}
    {between}
    {second}
assert not watch.recording.losses, watch.recording.losses
for recompile in watch.recording.recompiles:
    for failed in latest_failures(recompile):
        print("OURS", failed.family, describe_change(failed), sep="\\t", file=sys.stderr)
        print("EXPRESSION", failed.expression, sep="\\t", file=sys.stderr)
        lines = [frame.line for frame in failed.stack if frame.path == __file__]
        print("LINES", lines, sep="\\t", file=sys.stderr)
"""
_THEIRS = """
{first}
{between}
{second}
"""
_DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, torch._dynamo
if sys.argv[2] == "ours":
    from fullgraph_engine.findings.recompiles import describe_change, latest_failures
    from fullgraph_engine.tracing import recorder
    from fullgraph_engine.tracing.drive import install_hooks
    install_hooks()
for path in sys.argv[3:]:
    torch._dynamo.reset()
    torch.set_grad_enabled(True)
    print("CASE", path, file=sys.stderr, flush=True)
    names = {**globals(), "__file__": path}
    exec(compile(open(path).read(), path, "exec"), names)
"""


def run(folder: Path, side: str, body: str) -> dict[str, str]:
    """What each case prints, all in one process."""
    paths = []
    for case in CASES:
        path = folder / f"case_{case.name}.py"
        text = body.replace("{first}", case.first).replace("{second}", case.second)
        path.write_text(
            f"{textwrap.dedent(case.setup)}\nf = torch.compile(f, backend='eager')\n"
            + text.replace("{between}", case.between or "pass")
        )
        paths.append(str(path))
    driver = folder / "driver.py"
    driver.write_text(_DRIVER)
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_LOGS"}
    if side == "theirs":
        environment["TORCH_LOGS"] = "recompiles_verbose"
    done = subprocess.run(
        [sys.executable, str(driver), str(ENGINE), side, *paths],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^CASE (.*)\n", done.stderr, flags=re.M)[1:]
    return {
        Path(path).stem.removeprefix("case_"): text
        for path, text in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(tmp_path_factory.mktemp("ours"), "ours", _OURS)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(tmp_path_factory.mktemp("theirs"), "theirs", _THEIRS)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_that_fails_is_named(case: Case, ours: dict[str, str], theirs: dict[str, str]) -> None:
    said = ours[case.name]
    found = [line.split("\t")[1:] for line in said.splitlines() if line.startswith("OURS")]
    assert sorted(family for family, _ in found) == sorted(case.families), said
    for words in case.words:
        assert any(words in each for _, each in found), said
    guards = logged(theirs[case.name])
    assert guards, "a plain run does not recompile"
    for guard in guards:
        assert agrees(guard, said), f"{guard} is not among:\n{said}"


_ADDRESS = re.compile(r"0x[0-9a-f]+|\d{6,}")
"""Where an object is: elsewhere in each process."""


def logged(log: str) -> list[str]:
    """The guards that ``TORCH_LOGS=recompiles_verbose`` names."""
    return [
        match[1].split("  # ")[0].split(" (HINT")[0].strip()
        for match in re.finditer(r"- \d+/\d+(?:_\d+)?: (.*)", log)
    ]


def agrees(guard: str, ours: str) -> bool:
    """Whether a guard in Dynamo's words is among ours, where it names one value."""
    size = re.match(
        r"tensor '(?P<of>.+)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)", guard
    )
    if size is not None:
        return f"`{size[1]}.shape[{size[2]}]` was {size[3]}, now {size[4]}" in ours
    stride = re.match(
        r"tensor '(?P<of>.+)' stride mismatch at index (\d+)\. expected (\d+), actual (\d+)", guard
    )
    if stride is not None:
        return f"`{stride[1]}.stride({stride[2]})` was {stride[3]}, now {stride[4]}" in ours
    for words, said in (
        ("rank mismatch", ".dim()"),
        ("dtype mismatch", ".dtype"),
        ("requires_grad mismatch", ".requires_grad"),
        ("dispatch key set mismatch", ".requires_grad"),
        ("GLOBAL_STATE changed: grad_mode", "grad mode changed"),
    ):
        if words in guard:
            return said in ours
    plain = re.sub(r"\bL\['(\w+)'\]", r"\1", ours)
    return _ADDRESS.sub("", guard) in _ADDRESS.sub("", plain)


# -- the forecast -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """A target ``f`` with a probe comment, and the same call with real tensors.

    ``call`` holds a name in braces for each value that the forecast changes; ``rows`` say which
    row of the forecast each is, and what is expected of it.
    """

    name: str
    text: str
    call: str
    first: dict[str, object]
    rows: dict[str, tuple[str, str]]


FORECASTS = (
    Forecast(
        "free",
        """
        # fullgraph: f32[4, 8]
        def f(x):
            return x.relu().sum(-1)
        """,
        "f(torch.randn({a}, {b}))",
        {"a": 4, "b": 8},
        {"x.shape[0]": ("a", "once"), "x.shape[1]": ("b", "once")},
    ),
    Forecast(
        "asked",
        """
        # fullgraph: f32[b=4, 8]
        def f(x):
            return x.relu().sum(-1)
        """,
        "f(marked(torch.randn({a}, {b}), 0))",
        {"a": 4, "b": 8},
        {"x.shape[0]": ("a", "stays"), "x.shape[1]": ("b", "once")},
    ),
    Forecast(
        "linear",
        """
        # fullgraph: f32[4, 8]
        class F(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = torch.nn.Linear(8, 8)
                self.drop = torch.nn.Dropout()
            def forward(self, x):
                return self.drop(self.lin(x))
        """,
        "f(torch.randn({a}, 8)){training}",
        {"a": 4, "training": ""},
        {"x.shape[0]": ("a", "once"), "training": ("training", "once")},
    ),
    Forecast(
        "unrolled",
        """
        # fullgraph: f32[4, 8, 6]
        def f(x):
            state = x.new_zeros(x.shape[0], x.shape[2])
            for step in range(x.shape[1]):
                state = state + x[:, step]
            return state
        """,
        "f(torch.randn({a}, {b}, {c}))",
        {"a": 4, "b": 8, "c": 6},
        {"x.shape[0]": ("a", "once"), "x.shape[1]": ("b", "always"), "x.shape[2]": ("c", "once")},
    ),
    Forecast(
        "parity",
        """
        # fullgraph: f32[4, 8]
        def f(x):
            return x + 1 if x.shape[0] % 2 else x - 1
        """,
        "f(torch.randn({a}, 8))",
        {"a": 4},
        {"x.shape[0]": ("a", "conditional")},
    ),
    Forecast(
        "threshold",
        """
        # fullgraph: f32[4, 8]
        def f(x):
            return x + 1 if x.shape[0] > 5 else x - 1
        """,
        "f(torch.randn({a}, 8))",
        {"a": 4},
        {"x.shape[0]": ("a", "conditional")},
    ),
    Forecast(
        "number",
        """
        # fullgraph: f32[4, 8]
        def f(x):
            return x * int(x.shape[1]) + {3: 1, 4: 2}.get(x.shape[0], 0)
        """,
        "f(torch.randn({a}, {b}))",
        {"a": 4, "b": 8},
        {"x.shape[0]": ("a", "always"), "x.shape[1]": ("b", "once")},
    ),
    Forecast(
        "two",
        """
        # fullgraph: x=f32[4, 8], y=f32[4, 8]
        def f(x, y):
            return x + y
        """,
        "f(torch.randn({a}, {b}), torch.randn({a}, {b}))",
        {"a": 4, "b": 8},
        {
            "x.shape[0], y.shape[0]": ("a", "once"),
            "x.shape[1], y.shape[1]": ("b", "once"),
        },
    ),
    Forecast(
        "values",
        """
        # fullgraph: f32[4, 8], count=2, scale=0.5, flag=True, mask=f32[4, 8]
        def f(x, count, scale, flag, mask=None):
            for _ in range(count):
                x = x * scale
            if mask is not None:
                x = x * mask
            return x if flag else -x
        """,
        "f(torch.randn(4, 8), {count}, {scale}, {flag}, {mask})",
        {"count": 2, "scale": 0.5, "flag": True, "mask": "torch.randn(4, 8)"},
        {
            "count": ("count", "always"),
            "scale": ("scale", "once"),
            "flag": ("flag", "once"),
            "mask": ("mask", "once"),
        },
    ),
    Forecast(
        "counter",
        """
        # fullgraph: f32[4, 8]
        class F(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0
            def forward(self, x):
                self.calls += 1
                return x * self.calls
        """,
        "f(torch.randn(4, 8))",
        {},
        {"the same inputs": ("", "always")},
    ),
    Forecast(
        "remembered",
        """
        # fullgraph: f32[4, 8]
        class F(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = None
            def forward(self, x):
                if self.table is None:
                    self.table = torch.ones(8)
                return x * self.table
        """,
        "f(torch.randn(4, 8))",
        {},
        {"the same inputs": ("", "once")},
    ),
    Forecast(
        "split",
        """
        # fullgraph: f32[4, 8]
        def f(x):
            y = x * 2
            torch._dynamo.graph_break()
            return y.flatten() + y.shape[0]
        """,
        "f(torch.randn({a}, {b}))",
        {"a": 4, "b": 8},
        {"x.shape[0]": ("a", "once"), "x.shape[1]": ("b", "once")},
    ),
)

_FORECASTS = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
import torch, torch._dynamo
from fullgraph_engine import targets, tracing
from fullgraph_engine.findings import forecast, run_target
from fullgraph_engine.host.process_backends.branches import Branches
from fullgraph_engine.protocol import to_plain
tracing.warm_up()
forecast.SHORTEST = 60.0
def forecast_of(path, all_rows):
    torch._dynamo.reset()
    text = open(path).read()
    module = sys.modules["case"] = types.ModuleType("case")
    exec(compile(text, path, "exec"), module.__dict__)
    (target,) = targets.discover(text, path).targets
    (probe,) = targets.plan_probes(target, module.__dict__)
    rows, found = [], []
    run_target(
        targets.Tracee(target, probe, module.__dict__, path, text, "fake"), "forecast",
        emit=lambda finding: found.append(finding.message), branch=Branches(),
        forecast_recompiles=lambda made: rows.extend(to_plain(row) for row in made.rows),
        forecast_rows=all_rows,
    )
    return rows, found
print(json.dumps({path: [forecast_of(path, True), forecast_of(path, False)]
                  for path in sys.argv[2:]}))
"""
_CALLS = """
import json, sys, types
import torch, torch._dynamo
def marked(x, dim):
    torch._dynamo.maybe_mark_dynamic(x, dim)
    return x
for number, (path, calls) in enumerate(json.loads(sys.stdin.read())):
    torch._dynamo.reset()
    names = {"marked": marked}
    exec(compile(open(path).read(), path, "exec"), names)
    names["f"] = torch.compile(names["F"]() if "F" in names else names["f"], backend="eager")
    for at, call in enumerate(calls):
        print(f"CALL {number} {at}", file=sys.stderr, flush=True)
        exec(call, names)
print("CALL -1 0", file=sys.stderr, flush=True)
"""


def python(
    *arguments: str, given: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "TORCH_LOGS"}
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        env={**clean, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def forecasts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rows and findings of the forecast of each case, with all of its rows and without."""
    folder = tmp_path_factory.mktemp("forecast")
    paths = []
    for case in FORECASTS:
        path = folder / f"case_{case.name}.py"
        path.write_text("import torch\n" + textwrap.dedent(case.text))
        paths.append(str(path))
    driver = folder / "driver.py"
    driver.write_text(_FORECASTS)
    made = json.loads(python(str(driver), str(ENGINE), *paths).stdout.splitlines()[-1])
    return {Path(path).stem.removeprefix("case_"): both for path, both in made.items()}


@pytest.fixture(scope="module")
def forecast(forecasts: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows of the forecast of each case, by name."""
    return {name: {row["name"]: row for row in rows} for name, ((rows, _), _) in forecasts.items()}


@pytest.fixture(scope="module")
def real(
    forecast: dict[str, dict[str, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], list[bool]]:
    """Which of the forecast's calls compile something again, made with real tensors."""
    folder = tmp_path_factory.mktemp("real")
    orders, keys = [], []
    for case in FORECASTS:
        path = folder / f"case_{case.name}.py"
        path.write_text("import torch\n" + textwrap.dedent(case.text))
        for name, (place, _) in case.rows.items():
            calls = [case.call.format(**case.first)]
            for value in forecast[case.name][name]["tried"]:
                if place == "training":
                    calls.append("f.eval(); " + case.call.format(**case.first))
                else:
                    calls.append(case.call.format(**{**case.first, place: value}))
            if name == "the same inputs":
                calls += [calls[0]] * (4 - len(calls))
            orders.append((str(path), calls))
            keys.append((case.name, name))
    driver = folder / "driver.py"
    driver.write_text(_CALLS)
    log = python(str(driver), given=json.dumps(orders), TORCH_LOGS="recompiles").stderr
    parts = re.split(r"^CALL (-?\d+) (\d+)\n", log, flags=re.M)[1:]
    found: dict[tuple[str, str], list[bool]] = {}
    for number, at, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if int(number) >= 0 and int(at) > 0:
            again = "Recompiling function" in text
            found.setdefault(keys[int(number)], []).append(again)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", FORECASTS, ids=lambda case: case.name)
def test_the_forecast_is_what_happens(
    case: Forecast,
    forecast: dict[str, dict[str, dict[str, Any]]],
    real: dict[tuple[str, str], list[bool]],
) -> None:
    for name, (_, verdict) in case.rows.items():
        row = forecast[case.name][name]
        assert row["verdict"] == verdict, row
        assert bool(row["reasons"]) == (verdict != "stays"), row
        assert verdict_of(real[case.name, name]) == verdict, (name, real[case.name, name])


@pytest.mark.slow
@pytest.mark.parametrize("case", FORECASTS, ids=lambda case: case.name)
def test_findings_need_no_other_rows(case: Forecast, forecasts: dict[str, Any]) -> None:
    (rows, found), (fewer, same) = forecasts[case.name]
    assert same == found
    assert [row for row in fewer if row["kind"] == "mode"] == []
    assert [row for row in rows if row["name"] in {one["name"] for one in fewer}] == fewer


def verdict_of(compiled_again: list[bool]) -> str:
    first, *later = compiled_again
    if not first:
        return "stays"
    if not any(later):
        return "once"
    return "always" if all(later) else "conditional"
