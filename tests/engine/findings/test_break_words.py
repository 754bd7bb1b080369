"""First lines of graph breaks: of everything in the registry of the installed torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch._dynamo

from fullgraph_engine.findings.break_words import MOST, break_line, describe_break
from fullgraph_engine.torch_internals.breaks import cannot_read_tensors
from fullgraph_engine.tracing.recording import Cause

REGISTRY = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
if not REGISTRY.exists():
    pytest.skip("this torch has no registry of graph breaks", allow_module_level=True)

ENTRIES: list[tuple[str, dict[str, Any]]] = [
    (number, entry)
    for number, entries in json.loads(REGISTRY.read_text(encoding="utf-8")).items()
    for entry in entries
]
JARGON = (
    *("VariableTracker", "UnspecializedNNModule", "SkipFunctionVariable", "HOP", "_gb_type"),
    *("Attempted to", "marked as skipped", "<unknown module>", "_impl"),
)


def cause(entry: dict[str, Any]) -> Cause:
    """An entry of the registry; the values in its texts are as long as those of real programs."""
    long = "a_very.long_and.winding_name_of_something"
    words = {key: str(entry[key]).replace("{name}", long) for key in ("Explanation", "Context")}
    return Cause(entry["Gb_type"], words["Explanation"], tuple(entry["Hints"]), words["Context"])


@pytest.mark.parametrize(("number", "entry"), ENTRIES, ids=lambda value: str(value)[:40])
def test_every_break_of_the_registry_says_what_to_do_in_one_line(
    number: str, entry: dict[str, Any]
) -> None:
    words = describe_break(cause(entry))
    assert words.what and words.action
    for code in ("", "a_module.another_module.some_function_with_a_long_name(x, y)"):
        line = break_line(cause(entry), code)
        assert line.startswith("Graph break: ") and len(line) <= MOST, line
        assert "\n" not in line and line.count("`") % 2 == 0, line
        assert "; " in line and not any(word in line for word in JARGON), line


SKIPPED = "Attempted to call function marked as skipped"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
PRINT = "Failed to trace builtin operator"
DATA = "Data dependent operator"
LINES = [
    (
        Cause(SKIPPED, context="module: <unknown module>, qualname: Random.random, skip reason: x"),
        "random.random()",
        "Graph break: Dynamo does not trace `random.random`; move the call out of the compiled "
        "code",
    ),
    (
        Cause(SKIPPED, context="module: einops, qualname: rearrange, skip reason: x"),
        "",
        "Graph break: Dynamo does not trace `einops.rearrange`; move the call out of the compiled "
        "code",
    ),
    (
        Cause(ITEM),
        "x.sum().item()",
        "Graph break: `.item()` reads a tensor's value; keep a tensor, or set "
        "`capture_scalar_outputs`",
    ),
    (
        Cause(ITEM),
        "int(x)",
        "Graph break: `int()` reads a tensor's value; keep a tensor, or set "
        "`capture_scalar_outputs`",
    ),
    (
        Cause(PRINT, context="builtin print [<class 'x.TensorVariable'>] False"),
        "print(x)",
        "Graph break: Dynamo does not trace `print`; remove it, or add it to "
        "`reorderable_logging_functions`",
    ),
    (
        Cause("Data-dependent branching"),
        "x.sum() > 0",
        "Graph break: this condition depends on the value of a tensor; use `torch.where` or "
        "`torch.cond`",
    ),
    (
        Cause(DATA, context="aten.equal.default"),
        "",
        "Graph break: `equal` returns a number that depends on data; keep the value in a tensor",
    ),
    (
        Cause("Call to `torch._dynamo.graph_break()`"),
        "torch._dynamo.graph_break()",
        "Graph break: `torch._dynamo.graph_break()` is called; remove the call",
    ),
    (
        Cause("Observed exception", context="raised exception ValueError([])"),
        "raise ValueError",
        "Graph break: the code raises `ValueError` when it is traced; check that the code runs in "
        "eager mode",
    ),
]


@pytest.mark.parametrize(("given", "code", "line"), LINES, ids=[line[2][13:40] for line in LINES])
def test_the_usual_breaks_are_said_in_the_users_terms(given: Cause, code: str, line: str) -> None:
    assert break_line(given, code) == line


def test_an_unknown_break_has_the_words_of_torch_and_an_action() -> None:
    bug = ("This is likely to be a Dynamo bug. Please report an issue to PyTorch.",)
    assert break_line(Cause("Attempted to fold a napkin", hints=bug)) == (
        "Graph break: Dynamo cannot fold a napkin; report it to PyTorch"
    )
    hints = ("Avoid the napkin.",)
    explanation = "Dynamo does not support napkins. They are white."
    assert break_line(Cause("Napkin", explanation, hints)) == (
        "Graph break: Dynamo does not support napkins; avoid the napkin"
    )


@pytest.mark.parametrize(
    ("title", "context", "known"),
    [
        ("Call to `torch._dynamo.graph_break()`", "", True),
        (PRINT, "builtin print [<class 'torch._dynamo.x.ConstantVariable'>] False", True),
        (PRINT, "builtin print [<class 'torch._dynamo.x.ListVariable'>] False", False),
        (SKIPPED, "module: time, qualname: perf_counter, skip reason: x", True),
        (SKIPPED, "module: mine, qualname: log, skip reason: x", False),
        (ITEM, "", False),
    ],
)
def test_only_what_cannot_read_a_tensor_is_free_of_syncs(
    title: str, context: str, known: bool
) -> None:
    assert cannot_read_tensors(title, context) is known
