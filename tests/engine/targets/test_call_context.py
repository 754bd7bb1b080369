"""Calls that an example makes are traced in the modes of torch that they are made in."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from fullgraph_engine.targets import Call, NotationError, discover, plan_probes
from fullgraph_engine.targets.context import CallContext
from fullgraph_engine.targets.notation_parser import parse_context
from fullgraph_engine.torch_internals import ambient, dynamo
from fullgraph_engine.tracing import tensor_mode

TEXT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)

if __name__ == "__main__":
    net = Net()
    with {mode}:
        net(torch.ones(2, 4))
"""


def build_call(text: str, *, fake: bool = False) -> Call:
    """Build the call of the only target of a file with this text, on fake tensors if wanted."""
    module = types.ModuleType("contexts")
    module.__file__ = "contexts.py"
    sys.modules["contexts"] = module
    try:
        exec(compile(text, "contexts.py", "exec"), module.__dict__)
        (target,) = discover(text, "contexts.py").targets
        with tensor_mode(fake) as mode:
            assert (mode is not None) is fake
            if mode is not None:
                mode.restart()
            return plan_probes(target, module.__dict__)[0].build(module.__dict__)
    finally:
        del sys.modules["contexts"]


@pytest.mark.parametrize(
    ("mode", "context", "words"),
    [
        ("torch.enable_grad()", CallContext(), ""),
        ("torch.no_grad()", CallContext(grad=False), "without gradients"),
        (
            "torch.inference_mode()",
            CallContext(grad=False, inference=True),
            "in inference mode",
        ),
        (
            "torch.autocast('cpu', dtype=torch.bfloat16)",
            CallContext(autocast=(("cpu", "bf16"),)),
            "under autocast to bfloat16",
        ),
    ],
)
def test_a_call_has_the_context_that_it_is_made_in(
    mode: str, context: CallContext, words: str
) -> None:
    call = build_call(TEXT.format(mode=mode), fake=True)
    assert call.context == context
    assert context.words == words
    with call.context.enter():
        assert CallContext.of_running_code() == context
    assert CallContext.of_running_code() == CallContext()


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        (
            "no_grad, eval",
            CallContext(grad=False, training=False),
            "in eval mode, without gradients",
        ),
        ("train", CallContext(training=True), "in training mode"),
        (
            "autocast=bf16@cuda",
            CallContext(autocast=(("cuda", "bf16"),)),
            "under autocast to bfloat16",
        ),
        (
            "stance=force_eager, config.recompile_limit=3",
            CallContext(stance="force_eager", settings=(("recompile_limit", 3),)),
            "under the stance force_eager, with recompile_limit=3",
        ),
    ],
)
def test_a_context_is_shown_as_it_is_written(text: str, context: CallContext, words: str) -> None:
    assert parse_context(text) == context
    assert (context.text, context.words) == (text, words)


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ("evil", "'evil' is unknown in under", "evil"),
        ("eval, train", "one mode", "train"),
        ("no_grad, inference_mode", "either no_grad or inference_mode, once", "inference_mode"),
        ("autocast", "autocast=bf16", "autocast"),
        ("autocast=i64", "not a dtype that autocast takes", "autocast=i64"),
        ("eval=1", "takes no value", "eval=1"),
        ("stance=lazy", "'lazy' is not a stance", "stance=lazy"),
        ("config.x=f32[3]", "takes a number", "f32[3]"),
    ],
)
def test_what_a_context_cannot_be_is_told_at_its_word(text: str, words: str, place: str) -> None:
    with pytest.raises(NotationError, match=words) as raised:
        parse_context(text)
    assert text[raised.value.start : raised.value.end] == place


def test_settings_and_the_stance_hold_inside_of_a_context_alone() -> None:
    before = dynamo.config.recompile_limit
    context = parse_context("stance=force_eager, config.recompile_limit=3")
    with context.enter():
        assert (dynamo.config.recompile_limit, ambient.stance()) == (3, "force_eager")
        assert ambient.changed_settings()["recompile_limit"] == 3
    assert (dynamo.config.recompile_limit, ambient.stance()) == (before, "")


def test_calls_of_one_object_have_modes_of_their_own() -> None:
    probe = (
        "f32[2, 4](requires_grad) under(eval) then f32[3, 4](mark_dynamic=0) under(train, no_grad)"
    )
    call = build_call(
        TEXT.format(mode="torch.enable_grad()").replace("class", f"# fullgraph: {probe}\nclass")
    )
    module: Any = call.function
    assert call.context.training is False
    assert not module.training
    (further,) = call.then
    assert further.function is call.function
    with further.enter():
        assert module.training
        assert not torch.is_grad_enabled()
    assert call.args[0].requires_grad and call.args[0].is_leaf
    assert ambient.marked_dimensions(further.args[0]) == {"mark_dynamic": (0,)}
    assert call.inputs == (
        "f32[2, 4](requires_grad) then f32[3, 4](mark_dynamic=0) under(no_grad, train)"
    )


def test_a_context_without_inputs_holds_for_those_that_are_found() -> None:
    text = TEXT.format(mode="torch.enable_grad()").replace("(self, x)", "(self, x: 'f32[2, 4]')")
    call = build_call(text.replace("class", "# fullgraph: under(eval, autocast=bf16)\nclass"))
    assert call.context.text == "autocast=bf16@cpu, eval"
    assert call.inputs == "f32[2, 4]"
