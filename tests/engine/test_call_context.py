"""Calls that an example makes are traced in the modes of torch that they are made in."""

from __future__ import annotations

import sys
import types

import pytest

from fullgraph_engine.targets import discover, plan
from fullgraph_engine.targets.context import CallContext
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
    text = TEXT.format(mode=mode)
    module = types.ModuleType("contexts")
    module.__file__ = "contexts.py"
    sys.modules["contexts"] = module
    try:
        exec(compile(text, "contexts.py", "exec"), module.__dict__)
        (target,) = discover(text, "contexts.py").targets
        with tensor_mode(True) as fake:
            assert fake is not None
            fake.begin()
            call = plan(target, module.__dict__)[0].build(module.__dict__)
    finally:
        del sys.modules["contexts"]
    assert call.context == context
    assert context.words == words
    with call.context.enter():
        assert CallContext.current() == context
    assert CallContext.current() == CallContext()
