"""Rewrites of callers and constructors, and the comparison of a program's values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.program_values import compare_values
from fullgraph.fixes.rewrites.calling import converted_arguments
from fullgraph.fixes.rewrites.constructors import moved_to_constructor
from fullgraph.fixes.rewrites.hoisting import compiled_once
from fullgraph.fixes.rewrites.isolation import isolated_kinds
from fullgraph.fixes.rewrites.returned_numbers import returned_numbers
from fullgraph.fixes.rewrites.varying_values import varying_values
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Aspect, Finding, GuardName, ObservedValue, Range
from fullgraph_engine.protocol.evidence import (
    BreakEvidence,
    Evidence,
    GuardFailure,
    RecompileEvidence,
)


def site_at(text: str, place: str, evidence: Evidence, code: str, *names: GuardName) -> Site:
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    return Site(Text(text), Finding(code, "message", range_, evidence=evidence, names=names))


def break_at(text: str, place: str) -> Site:
    evidence = BreakEvidence("Unsupported Tensor.item() call with capture_scalar_outputs=False")
    return site_at(text, place, evidence, "graph-break/GB0124")


def recompile_at(text: str, place: str, source: str, was: str, now: str, function: str) -> Site:
    guard = GuardFailure("0/0", "EQUALS_MATCH", source, f"{source} == {was}", "it", was, now)
    evidence = RecompileEvidence(function, "model.py", 0, (guard,))
    return site_at(text, place, evidence, "recompile/value", GuardName("x", "it", function))


LOSS = """\
import torch


@torch.compile
def step(x):
    loss = x.sum()
    return {returned}


{caller}
"""


@pytest.mark.parametrize(
    ("returned", "caller", "expected"),
    [
        pytest.param("loss.item()", "print(step(x))", "print(step(x).item())", id="a number"),
        pytest.param(
            "loss, loss.item()", "loss, number = step(x)", "number = number.item()", id="a tuple"
        ),
        pytest.param(
            '{"loss": loss.item(), "size": 3}',
            "log = step(x)",
            'log["loss"] = log["loss"].item()',
            id="a dictionary",
        ),
        pytest.param("loss, loss.item()", "both = step(x)", "", id="a tuple in a variable"),
        pytest.param("loss, loss.item()", "use(step(x))", "", id="a tuple as an argument"),
    ],
)
def test_callers_read_the_numbers(returned: str, caller: str, expected: str) -> None:
    text = LOSS.replace("{returned}", returned).replace("{caller}", caller)
    found = list(returned_numbers(break_at(text, "loss.item()")))
    assert bool(found) is bool(expected)
    if expected:
        assert "loss.detach()" in found[0].text
        assert found[0].text.rstrip().endswith(expected)
        assert found[0].returns_tensors


NET = """\
import json

import torch


class Net(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options

    def forward(self, x):
        scale = json.loads({read})["scale"]
        return x * scale
"""


def test_work_on_constant_attributes_moves_to_the_constructor() -> None:
    text = NET.replace("{read}", "self.options")
    (found,) = moved_to_constructor(break_at(text, "json.loads(self.options)"))
    assert '        self.scale = json.loads(self.options)["scale"]\n' in found.text
    assert "        scale = self.scale\n" in found.text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NET.replace("{read}", "self.options + x.name"), id="an argument"),
        pytest.param(
            NET.replace("{read}", "self.options")
            + "\n    def set(self, options):\n        self.options = options\n",
            id="an attribute that changes",
        ),
        pytest.param(NET.replace("{read}", "self.unknown"), id="an unknown attribute"),
    ],
)
def test_work_on_changing_values_stays(text: str) -> None:
    assert not list(moved_to_constructor(break_at(text, "json.loads")))


def test_what_a_loop_changes_is_not_moved_out_of_it() -> None:
    """Only the statement of the inner loop moves, and only before the inner loop."""
    text = (
        "import torch\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n"
        "    for b in backends:\n        for _ in range(3):\n"
        "            step = torch.compile(f, backend=b)\n            x = step(x)\n"
    )
    evidence = RecompileEvidence("f", "model.py", 0, reasons=("BACKEND_MATCH failure: other",))
    (found,) = compiled_once(site_at(text, "def f", evidence, "recompile/other"))
    assert (
        "    for b in backends:\n        step = torch.compile(f, backend=b)\n"
        "        for _ in range(3):\n            x = step(x)\n"
    ) in found.text


MODULE = """\
import torch


class Net(torch.nn.Module):
    def __init__(self, rate=0.5):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return x * self.rate


net = Net()
net.rate = 0.25
net.rate *= 2
"""


def test_an_attribute_becomes_a_buffer_that_callers_fill() -> None:
    site = recompile_at(MODULE, "self.rate\n", "L['self'].rate", "0.5", "0.25", "forward")
    (found,) = varying_values(site)
    made = 'self.register_buffer("rate", torch.tensor(rate, dtype=torch.float64), persistent=False)'
    assert made in found.text
    assert found.text.endswith("net.rate.fill_(0.25)\nnet.rate *= 2\n")


def test_other_values_than_numbers_stay() -> None:
    site = recompile_at(MODULE, "self.rate\n", "L['self'].rate", "'a'", "'b'", "forward")
    assert not list(varying_values(site))


def value(aspect: Aspect, path: str, *sample: float, words: str = "f32[2]") -> ObservedValue:
    return ObservedValue(aspect, path, words, str(sample), (*sample, sum(map(abs, sample))))


NUMBER = ObservedValue("result", "result 1 of f", "float", "a", (0.1, 0.1))
TENSOR = ObservedValue("result", "result 1 of f", "f32[]", "b", (0.10000000149, 0.10000000149))


@pytest.mark.parametrize(
    ("before", "after", "lost", "outcome"),
    [
        ([value("result", "r", 1.0, 2.0)], [value("result", "r", 1.0, 2.0)], (), "same"),
        ([value("result", "r", 1.0, 2.0)], [value("result", "r", 1.0, 2.00001)], (), "same"),
        ([value("result", "r", 1.0, 2.0)], [value("result", "r", 1.0, 2.1)], (), "differs"),
        ([value("gradient", "g", 1.0)], [value("gradient", "g", 3.0)], (), "differs"),
        ([value("state", "s", 1.0)], [value("state", "s", 3.0)], (), "differs"),
        ([value("state", "s", 1.0)], [value("state", "s", 3.0)], ("state",), "unverified"),
        ([value("result", "r", 1.0)], [], (), "unverified"),
        ([value("result", "r", float("nan"))], [value("result", "r", 0.0)], (), "differs"),
        ([NUMBER], [TENSOR], (), "differs"),
        ([NUMBER], [TENSOR], ("result",), "same"),
    ],
)
def test_values_of_two_programs(
    before: Sequence[ObservedValue],
    after: Sequence[ObservedValue],
    lost: tuple[Aspect, ...],
    outcome: str,
) -> None:
    assert compare_values(before, after, lost).outcome == outcome


def test_a_program_that_dynamo_ended_is_compared_as_far_as_it_came() -> None:
    before = [value("result", "r", 1.0)]
    after = [value("result", "r", 1.0), value("result", "s", 2.0)]
    assert compare_values(before, after, ()).outcome == "unverified"
    assert compare_values(before, after, (), ended_early=True).outcome == "same"


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ([value("result", "r", 1.0), value("state", "s", 7.0)], "same"),
        ([value("result", "r", 3.0)], "differs"),
        ([], "unverified"),
    ],
)
def test_calls_that_two_stopped_programs_made_are_compared(
    after: list[ObservedValue], outcome: str
) -> None:
    before = [value("result", "r", 1.0), value("result", "r", 2.0), value("state", "s", 3.0)]
    assert compare_values(before, after, (), stopped=True).outcome == outcome
    assert compare_values(after, before, (), stopped=True).outcome == outcome


@pytest.mark.parametrize(("changed", "outcome"), [(3e-8, "same"), (3e-3, "differs")])
def test_gradients_that_are_only_rounding_may_differ(changed: float, outcome: str) -> None:
    def gradients(key: float) -> list[ObservedValue]:
        paths = ("gradients of result 1 of f[0]", "gradients of result 1 of f[1]")
        return [value("gradient", paths[0], 2.0), value("gradient", paths[1], key)]

    assert compare_values(gradients(1e-8), gradients(changed), ()).outcome == outcome
    other_call = value("gradient", "gradients of result 2 of f[0]", 1e-8)
    changed_call = dataclasses.replace(other_call, digest="", sample=(3e-8, 3e-8))
    both = (*gradients(1.0), other_call), (*gradients(1.0), changed_call)
    assert compare_values(*both, ()).outcome == "differs"


def with_sourceless_guard(site: Site, words: str) -> Site:
    """Return the site with a guard that does not have a source."""
    evidence = site.finding.evidence
    assert isinstance(evidence, RecompileEvidence)
    guard = dataclasses.replace(evidence.guards[0], source="", words=words)
    names = tuple(dataclasses.replace(one, words=words) for one in site.finding.names)
    evidence = dataclasses.replace(evidence, guards=(guard,))
    return Site(site.text, dataclasses.replace(site.finding, evidence=evidence, names=names))


CALLED = """\
import torch


@torch.compile
def step(x, options):
    for key, value in options.items():
        x = x + value
    return x


step(data[3:], {3: torch.ones(2)})
step(torch.ones(2), options)
"""


def test_views_are_copied_in_calls() -> None:
    site = recompile_at(CALLED, "x + value", "", "", "", "step")
    (made,) = converted_arguments(
        with_sourceless_guard(site, "`2 <= x.storage_offset()` is no longer true")
    )
    assert "step(data[3:].clone(), {3" in made.text
    assert "step(torch.ones(2), options)" in made.text


def test_unused_keys_are_replaced_in_calls() -> None:
    keys = "list(dict.keys(L['options']))[0]"
    site = recompile_at(CALLED, "options.items()", keys, "3", "4", "step")
    (made,) = converted_arguments(site)
    assert "step(torch.ones(2), dict(enumerate(options.values())))" in made.text
    assert "dict(enumerate(({3: torch.ones(2)}).values()))" in made.text
    used = CALLED.replace("x + value", "x + value * key")
    assert not list(converted_arguments(recompile_at(used, "options", keys, "3", "4", "step")))


def test_an_object_that_the_call_does_not_name_is_not_tested() -> None:
    text = "import torch\n\n\n@torch.compile\ndef step():\n    optimizer.step()\n\n\nstep()\n"
    source = "L['self'].param_groups[0]['foreach']"
    site = recompile_at(text, "optimizer.step()", source, "True", "False", "step")
    assert not list(isolated_kinds(site))


@pytest.mark.parametrize(
    ("compiling", "call", "expected"),
    [
        pytest.param(
            "net = torch.compile(Net())",
            "net(x, flag)",
            "uncompiled_net = Net()\nnet = torch.compile(uncompiled_net)\n"
            "net2 = torch.compile(uncompiled_net, isolate_recompiles=True)\n"
            "(net2 if flag else net)(x, flag)",
            id="a new module",
        ),
        pytest.param(
            "net = torch.compile(model, dynamic=True)",
            "net(x, read(flag))",
            "net = torch.compile(model, dynamic=True)\n"
            "net2 = torch.compile(model, dynamic=True, isolate_recompiles=True)\n"
            "training2 = read(flag)\n(net2 if training2 else net)(x, training2)",
            id="an argument that is an expression",
        ),
        pytest.param("model.compile()", "model(x, flag)", "", id="a module compiled in place"),
    ],
)
def test_calls_with_a_flag_get_compiled_code_of_their_own(
    compiling: str, call: str, expected: str
) -> None:
    forward = "class Net(torch.nn.Module):\n    def forward(self, x, training):\n        return x\n"
    text = f"import torch\n\n{forward}\n{compiling}\n{call}\n"
    site = recompile_at(text, "return x", "L['training']", "True", "False", "forward")
    made = [one.text for one in isolated_kinds(site)]
    assert len(made) == bool(expected)
    assert all(one.endswith(f"\n{expected}\n") for one in made)
