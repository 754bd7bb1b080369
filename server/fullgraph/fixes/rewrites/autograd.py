"""Gradients, parameters and recurrent layers inside of compiled code."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.syntax import Syntax, targets
from fullgraph.fixes.site import Site

_WHOLE_PROGRAM = "It holds for the whole program"


def attribute_of_tensor(site: Site) -> Iterator[Candidate]:
    """``x.requires_grad = …`` and ``x.data = …`` by methods."""
    syntax = Syntax(site)
    small = syntax.small
    if small is None or not isinstance(small.node, cst.Assign) or len(small.node.targets) != 1:
        return
    target = targets(small.node)[0]
    if not isinstance(target, cst.Attribute):
        return
    value = site.code(small.node.value)
    if target.attr.value == "requires_grad":
        call = f"{syntax.operand(target.value)}.requires_grad_({value})"
        yield Candidate(
            "requires-grad-method",
            "Set it by `requires_grad_`",
            site.replaced([(small.node, cst.Expr(syntax.expression(call)))]),
            preserves=value in ("True", "False"),
        )
    elif target.attr.value == "data":
        call = f"{site.code(target)}.copy_({value})"
        yield Candidate(
            "copy-data",
            "Copy the data in place",
            site.replaced([(small.node, cst.Expr(syntax.expression(call)))]),
            gives_up="Other tensors that share the memory change as well.",
        )


def traced_gradients(site: Site) -> Iterator[Candidate]:
    """``torch.autograd.grad`` and ``backward`` in the graph, by a setting of Dynamo."""
    title = getattr(site.finding.evidence, "title", "")
    if "autograd.grad" in title or "backward()" in title:
        text = Syntax(site).with_setting("torch._dynamo.config.trace_autograd_ops = True")
        if text is not None:
            yield Candidate(
                "trace-autograd",
                "Set `trace_autograd_ops`",
                text,
                preserves=True,
                gives_up=f"{_WHOLE_PROGRAM}, and Dynamo calls this experimental.",
            )


def traced_recurrence(site: Site) -> Iterator[Candidate]:
    """``nn.LSTM`` and its like in the graph, by a setting of Dynamo."""
    title = getattr(site.finding.evidence, "title", "")
    if "RNN, GRU" in title:
        text = Syntax(site).with_setting("torch._dynamo.config.allow_rnn = True")
        if text is not None:
            yield Candidate(
                "allow-rnn",
                "Set `allow_rnn`",
                text,
                preserves=True,
                gives_up=(
                    f"{_WHOLE_PROGRAM}: recurrent layers are unrolled into the graph, which takes"
                    " long to compile for long sequences."
                ),
            )


def plain_parameter(site: Site) -> Iterator[Candidate]:
    """``nn.Parameter(x)`` that a function makes in each call, as a tensor."""
    syntax = Syntax(site)
    for call in syntax.calls("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        if not call.args or call.args[0].keyword is not None:
            continue
        value = call.args[0].value
        for code in (site.code(value), f"{syntax.operand(value)}.detach()"):
            yield Candidate(
                "plain-tensor",
                "Use a tensor that is no parameter",
                syntax.replaced(call, code),
                gives_up="No gradient is collected in it, and `parameters()` does not find it.",
            )
        return


def effects_in_checkpoint(site: Site) -> Iterator[Candidate]:
    """What a checkpointed function changes outside of it, by a setting of Dynamo."""
    title = getattr(site.finding.evidence, "title", "")
    if title != "HOP: Unsafe side effect" or "checkpoint" not in site.module.code:
        return
    setting = "torch._dynamo.config.skip_fwd_side_effects_in_bwd_under_checkpoint = True"
    text = Syntax(site).with_setting(setting)
    if text is not None:
        yield Candidate(
            "checkpoint-effects",
            "Set `skip_fwd_side_effects_in_bwd_under_checkpoint`",
            text,
            preserves=True,
            gives_up=(
                f"{_WHOLE_PROGRAM}: where the backward computes a checkpointed function again,"
                " compiled code does not change again what the function changes."
            ),
        )
