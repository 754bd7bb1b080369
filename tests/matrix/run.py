"""Run the tests that depend on torch's version, and enter what came of them into the table.

``python tests/matrix/run.py [--again] [PYTEST OPTIONS]``, in the environment with the torch to
test. With ``--again`` only what failed last time. Ends with pytest's status; what did not run to
its end is not entered.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import table

from fullgraph.engines import Engine, EngineState
from fullgraph_engine.protocol.facts import WORDS

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
DOCUMENT = ROOT / "docs" / "torch-versions.md"
TESTS = tuple(
    f"tests/engine/{path}.py"
    for path in (
        "findings/test_findings",
        "findings/test_guards_witness",
        "findings/test_shapes_seen",
        "findings/test_recompiles",
        "findings/test_values_seen",
        "findings/test_explanations",
        "repro/test_unsteady",
        "shapes/test_shapes_replay",
        "operators/test_operators_static",
        "operators/test_operators_census",
        "operators/test_operators_witnesses",
        "operators/test_operators_strings",
        "torch_internals/test_torch_internals",
        "tracing/test_tracing",
        "host/test_host_torch",
    )
)


class Tally:
    """A pytest plugin that remembers how each test ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            worse = report.failed or report.nodeid not in self.outcomes
            if worse:
                self.outcomes[report.nodeid] = report.outcome

    def count(self, outcome: str) -> int:
        return sum(ended == outcome for ended in self.outcomes.values())

    def failed(self) -> tuple[str, ...]:
        return tuple(sorted(test for test, ended in self.outcomes.items() if ended == "failed"))


async def degraded() -> tuple[str, ...]:
    """What this torch was not proven to show, as ``fullgraph doctor`` says it."""
    engine = Engine(Path(sys.executable))
    try:
        await engine.start()
        status = await engine.ready()
    finally:
        await engine.close()
    if status.state is not EngineState.READY:
        raise SystemExit(f"The engine cannot work here: {status.message}")
    return tuple(sorted({WORDS[one.fact] for one in status.degraded}))


def main(options: list[str]) -> int:
    torch = importlib.metadata.version("torch").partition("+")[0]
    python = ".".join(platform.python_version_tuple()[:2])
    cells = table.read(RESULTS)
    tests, before = TESTS, table.Cell(torch, python, 0)
    if "--again" in options:
        options.remove("--again")
        before = next(cell for cell in cells if (cell.torch, cell.python) == (torch, python))
        tests = before.failed
    tally = Tally()
    status = pytest.main([*tests, *options], plugins=[tally])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return int(status)
    cell = table.Cell(
        torch,
        python,
        before.passed + tally.count("passed"),
        tally.failed(),
        before.skipped + tally.count("skipped"),
        asyncio.run(degraded()),
    )
    cells = table.with_cell(cells, cell)
    table.write(RESULTS, cells)
    DOCUMENT.parent.mkdir(exist_ok=True)
    if not DOCUMENT.exists():
        DOCUMENT.write_text(f"# torch versions\n\n{table.BEGIN}\n{table.END}\n", encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(table.replaced(text, table.rendered(cells)), encoding="utf-8")
    print(f"torch {cell.torch}, Python {cell.python}: {cell.words}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
