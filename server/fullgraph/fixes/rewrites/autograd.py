"""Rewrites of gradients, parameters and recurrent layers in compiled code."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.syntax import Syntax, targets, words
from fullgraph.fixes.site import Change, Site

_WHOLE_PROGRAM = "The setting applies to the whole program"


def attribute_of_tensor(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of assignments to ``x.requires_grad`` and ``x.data`` as method calls."""
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
            "Set `requires_grad` with `requires_grad_`",
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
    """Yield a rewrite that makes Dynamo trace ``torch.autograd.grad`` and ``backward``.

    It changes a setting of Dynamo for the whole program.
    """
    title = getattr(site.finding.evidence, "title", "")
    if "autograd.grad" in title or "backward()" in title:
        text = Syntax(site).with_setting("torch._dynamo.config.trace_autograd_ops = True")
        if text is not None:
            yield Candidate(
                "trace-autograd",
                "Set `trace_autograd_ops`",
                text,
                preserves=True,
                gives_up=f"{_WHOLE_PROGRAM}, and PyTorch calls the setting experimental.",
            )


def traced_recurrence(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that makes Dynamo trace recurrent layers such as ``nn.LSTM``.

    It changes a setting of Dynamo for the whole program.
    """
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


_MAKING = words(
    """
    zeros ones rand randn randint randperm empty full arange linspace eye tensor from_numpy
    zeros_like ones_like rand_like randn_like empty_like full_like
    FloatTensor DoubleTensor HalfTensor LongTensor IntTensor ShortTensor ByteTensor BoolTensor
    """
)
"""Functions of torch that return a new tensor that does not require a gradient."""


def legacy_variables(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``Variable(x)`` in a function, which Dynamo cannot trace, as
    ``x.detach()``.

    Both have the same meaning since torch 0.4.
    """
    syntax = Syntax(site)
    here = next(syntax.calls(*_VARIABLE), None)
    if here is None:
        return
    changes: list[tuple[cst.CSTNode, Change]] = []
    preserves = True
    for call in descendants(syntax.function or here):
        # If one call is nested in another, the inner call is left for the next fix.
        inside = any(old in syntax.text.ancestors(call) for old, _ in changes)
        if not isinstance(call, cst.Call) or syntax.called(call) not in _VARIABLE or inside:
            continue
        made = _without_variable(syntax, call)
        if made is not None:
            changes.append((call, syntax.fitted(call, made[0])))
            preserves &= made[1]
    if any(old is here for old, _ in changes):
        yield Candidate(
            "without-variable",
            "Use tensors without `Variable`",
            site.replaced(changes),
            preserves=preserves,
        )


def constant_without_gradient(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that removes ``requires_grad=True`` where the gradient is never used.

    It applies to tensors that a function creates and whose gradient other code cannot see.
    """
    syntax = Syntax(site)
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in descendants(syntax.function) if syntax.function is not None else ():
        if not isinstance(call, cst.Call):
            continue
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        kept = [arg for arg in call.args if not _requires_gradient(arg)]
        if len(kept) < len(call.args) and (name in _MAKING or name.startswith("new_")):
            kept[-1:] = [one.with_changes(comma=call.args[-1].comma) for one in kept[-1:]]
            changes.append((call, call.with_changes(args=kept)))
    if any(old in syntax.here for old, _ in changes):
        yield Candidate(
            "without-gradient",
            "Create tensors that do not require a gradient",
            site.replaced(changes),
            gives_up="No gradients are computed for these tensors, nor for values that depend only "
            "on them.",
        )


def _requires_gradient(arg: cst.Arg) -> bool:
    return m.matches(arg, m.Arg(m.Name("True"), keyword=m.Name("requires_grad")))


_VARIABLE = ("torch.autograd.Variable", "torch.autograd.variable.Variable")


def _without_variable(syntax: Syntax, call: cst.Call) -> tuple[str, bool] | None:
    """Return the code that replaces a call of ``Variable``, and whether it is equivalent for any
    input.

    None if the call cannot be replaced.
    """
    first, *more = call.args or (None,)
    if first is None or first.star or (first.keyword and first.keyword.value != "data"):
        return None
    required = "False"
    for arg in more:
        required = syntax.site.code(arg.value)
        if arg.keyword is None or arg.keyword.value != "requires_grad":
            return None
    if required not in ("True", "False"):
        return None
    data = first.value
    keywords = {arg.keyword.value for arg in getattr(data, "args", ()) if arg.keyword}
    package, _, name = syntax.called(data).rpartition(".")
    fresh = (
        isinstance(data, cst.Call)
        and package == "torch"
        and name in _MAKING
        and not any(arg.star == "**" for arg in data.args)
        and keywords.isdisjoint(("requires_grad", "out"))
    )
    code = syntax.site.code(data) if fresh else f"{syntax.operand(data)}.detach()"
    gradient = required == "True"
    return code + ".requires_grad_()" * gradient, fresh and not gradient
