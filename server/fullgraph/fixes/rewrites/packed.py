"""Recurrent layers of packed sequences, step by step over padded ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.disable import BLANK, global_names
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.syntax import Syntax, bound, dotted, targets
from fullgraph.fixes.site import Change, Replacing, Site

_PACK = "torch.nn.utils.rnn.pack_padded_sequence"
_PAD = "torch.nn.utils.rnn.pad_packed_sequence"
_RNN = "torch._dynamo.config.allow_rnn = True"
_SCALARS = "torch._dynamo.config.capture_scalar_outputs = True"
_NUMBERS = ("tolist", "numpy", "cpu")
"""Methods that make of a tensor of lengths what is packed with."""


def padded(site: Site) -> Iterator[Candidate]:
    """A function that packs sequences, has recurrent layers go through them and pads what they
    return: the same over padded sequences, whose states stay from the end of each on."""
    syntax = Syntax(site)
    function = syntax.function
    if function is None or not site.finding.code.startswith("graph-break"):
        return
    calls = [one for one in descendants(function.body) if isinstance(one, cst.Call)]
    packs = [one for one in calls if syntax.called(one) == _PACK]
    pads = [one for one in calls if syntax.called(one) == _PAD]
    layers = _layers(function, packs, calls)
    about = {id(one) for one in (*packs, *pads, *layers)}
    if not layers or not any(id(one) in about for one in syntax.here):
        return
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in packs:
        changes += [(call.func, cst.Name("_packed")), *_lengths(call)]
    changes += [(call.func, cst.Name("_padded")) for call in pads]
    for call in layers:
        changes.append((call.func, cst.Name("_recurrent")))
        given = [cst.Arg(call.func.deep_clone()), call.args[0].deep_clone()]
        changes.append((call.args[0], cst.FlattenSentinel(given)))
    around = (function, *syntax.text.ancestors(function))
    top = next(one for one in around if one in site.module.body)
    rest = top.visit(Replacing(changes))
    assert isinstance(rest, cst.BaseCompoundStatement)
    new: list[cst.CSTNode] = [rest]
    if "_recurrent" not in global_names(syntax):
        new = [*_helpers(syntax, top), rest.with_changes(leading_lines=BLANK)]
    placed: list[tuple[cst.CSTNode, Change]] = [(top, cst.FlattenSentinel(new))]
    # How long the longest is only needs to be read where a tensor says it.
    for settings in (_RNN, f"{_RNN}\n{_SCALARS}"):
        text = syntax.with_setting(settings, placed, imports=("collections",))
        yield Candidate(
            "padded-recurrence",
            "Let recurrent layers go over padded sequences",
            text if text is not None else site.replaced(placed),
            gives_up=_GIVES_UP,
            extends=True,
            computes_more=True,
        )


_GIVES_UP = (
    "Recurrent layers are unrolled into the graph, and nothing checks that lengths are sorted and"
    " not 0."
)


def _layers(
    function: cst.FunctionDef, packs: Sequence[cst.Call], calls: Sequence[cst.Call]
) -> list[cst.Call]:
    """The calls that are given a packed sequence, or may be given one."""
    names: set[str] = set()
    for small in m.findall(function.body, m.Assign()):
        assert isinstance(small, cst.Assign)
        if small.value in packs:
            names |= {one for target in targets(small) for one in bound(target) or ()}
    return [
        call
        for call in calls
        if call.args
        and isinstance(call.args[0].value, cst.Name)
        and call.args[0].value.value in names
        and not call.args[0].keyword
        and dotted(call.func).startswith("self.")
    ]


def _lengths(call: cst.Call) -> Iterator[tuple[cst.CSTNode, Change]]:
    """The lengths as the tensor that they were read out of."""
    for at, arg in enumerate(call.args):
        if arg.keyword.value != "lengths" if arg.keyword is not None else at != 1:
            continue
        value = arg.value
        while (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in _NUMBERS
        ):
            value = value.func.value
        if value is not arg.value:
            yield arg.value, value.deep_clone()


def _helpers(syntax: Syntax, top: cst.CSTNode) -> list[cst.BaseStatement]:
    code = _HELPERS.replace("torch.", syntax.spelled("torch.x")[:-1])
    first, *rest = cst.parse_module(code, syntax.module.config_for_parsing).body
    leading = [one for one in getattr(top, "leading_lines", ()) if not one.comment]
    made: list[cst.BaseStatement] = [first.with_changes(leading_lines=leading)]
    return [*made, *(one.with_changes(leading_lines=BLANK) for one in rest)]


_HELPERS = '''\
_Packed = collections.namedtuple("_Packed", "steps, lengths, whole")


def _packed(x, lengths, batch_first=False, enforce_sorted=True):
    """Padded sequences by time and batch, in place of a `PackedSequence`."""
    steps = x.transpose(0, 1) if batch_first else x
    whole = not isinstance(lengths, torch.Tensor)
    if whole:
        steps, lengths = steps[: max(lengths)], torch.tensor(lengths)
    lengths = lengths.to(x.device)
    beyond = torch.arange(steps.shape[0], device=x.device).unsqueeze(1) >= lengths
    return _Packed(steps.masked_fill(beyond.unsqueeze(2), 0.0), lengths, whole)


def _recurrent(layers, x, states=None):
    """An LSTM, GRU or RNN, step by step: the state of a sequence stays from its end on."""
    if not isinstance(x, _Packed):
        return layers(x, states)
    steps, lengths, whole = x
    is_lstm = layers.mode == "LSTM"
    cell = getattr(torch, layers.mode.lower() + "_cell")
    sides = 2 if layers.bidirectional else 1
    if states is None:
        zeros = steps.new_zeros(layers.num_layers * sides, steps.shape[1], layers.hidden_size)
        states = (zeros, zeros) if is_lstm else zeros
    weights, count = list(layers.parameters()), 4 if layers.bias else 2
    ends = []
    for layer in range(layers.num_layers):
        outputs = []
        for side in range(sides):
            own = weights[len(ends) * count : (len(ends) + 1) * count]
            state = (states[0][len(ends)], states[1][len(ends)]) if is_lstm else states[len(ends)]
            made = []
            for step in range(steps.shape[0])[:: -1 if side else 1]:
                goes_on = (step < lengths).unsqueeze(1)
                new = cell(steps[step], state, *own)
                if is_lstm:
                    state = tuple(torch.where(goes_on, a, b) for a, b in zip(new, state))
                else:
                    state = torch.where(goes_on, new, state)
                made.append(torch.where(goes_on, new[0] if is_lstm else new, 0.0))
            outputs.append(torch.stack(made[::-1] if side else made))
            ends.append(state)
        steps = torch.cat(outputs, 2)
        if layer + 1 < layers.num_layers:
            steps = torch.nn.functional.dropout(steps, layers.dropout, layers.training)
    end = tuple(map(torch.stack, zip(*ends))) if is_lstm else torch.stack(ends)
    return _Packed(steps, lengths, whole), end


def _padded(x, batch_first=False, padding_value=0.0, total_length=None):
    """What `pad_packed_sequence` returns."""
    steps, lengths, whole = x
    if padding_value != 0.0:
        beyond = torch.arange(steps.shape[0], device=steps.device).unsqueeze(1) >= lengths
        steps = steps.masked_fill(beyond.unsqueeze(2), padding_value)
    if total_length is not None:
        more = (0, 0, 0, 0, 0, total_length - steps.shape[0])
        steps = torch.nn.functional.pad(steps, more, value=padding_value)
    elif not whole:
        longest = int(lengths.max())
        torch._check(longest <= steps.shape[0])
        steps = steps[:longest]
    return steps.transpose(0, 1) if batch_first else steps, lengths
'''
"""With the signatures of the functions in whose place they are."""
