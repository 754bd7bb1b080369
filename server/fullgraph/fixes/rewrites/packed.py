"""Rewrites of recurrent layers over packed sequences as recurrent layers over padded sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.disable import BLANK, global_names
from fullgraph.fixes.rewrites.dynamic_outputs import CAPTURE
from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, names_bound
from fullgraph.fixes.rewrites.syntax import Syntax, bound_variables, dotted_name, targets
from fullgraph.fixes.site import Change, Site, Transforming

_PACK = "torch.nn.utils.rnn.pack_padded_sequence"
_PAD = "torch.nn.utils.rnn.pad_packed_sequence"
_RNN = "torch._dynamo.config.allow_rnn = True"
_SCALARS = "torch._dynamo.config.capture_scalar_outputs = True"
_NUMBERS = ("tolist", "numpy", "cpu")
"""Methods that the file may call on the tensor of lengths before it calls ``pack_padded_sequence``.
"""


def pad_sequences(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of recurrent layers so that they get padded instead of packed sequences.

    The layers still return the states at the end of each sequence. The calls that pack, compute and
    pad may be in different functions and classes of the file.
    """
    syntax = Syntax(site)
    if not site.finding.code.startswith("graph-break"):
        return
    tops = [one for one in site.module.body if not _is_own(one)]
    calls = [one for top in tops for one in find_all(top, cst.Call)]
    packs = [one for one in calls if syntax.called(one) == _PACK]
    pads = [one for one in calls if syntax.called(one) == _PAD]
    layers = _layers(syntax, packs, calls) if packs else []
    if not layers:
        return
    data = _data_of(syntax, packs, layers)
    about = {id(one) for one in (*packs, *pads, *layers, *data)}
    if not any(id(one) in about for one in syntax.here):
        return
    padding = _padding(packs, pads, layers, data)
    placed: list[tuple[cst.CSTNode, Change]] = []
    for top in tops:
        rest = top.visit(padding)
        assert isinstance(rest, cst.BaseStatement)
        if rest is top or rest.deep_equals(top):
            continue
        new: list[cst.CSTNode] = [rest]
        if not placed and "_recurrent" not in global_names(syntax):
            if not isinstance(rest, (cst.FunctionDef, cst.ClassDef)):
                return
            new = [*_helpers(syntax, top), rest.with_changes(leading_lines=BLANK)]
        placed.append((top, cst.FlattenSentinel(new)))
    # Try without capturing scalars first: it is needed only if the longest length is in a tensor.
    more = (_SCALARS, CAPTURE) if data else (_SCALARS,)
    for settings in (_RNN, "\n".join((_RNN, *more))):
        text = syntax.with_setting(settings, placed, imports=("collections",))
        yield Candidate(
            "padded-recurrence",
            "Run recurrent layers on padded sequences",
            text or site.replaced(placed, imports=("collections", *syntax.lacking("torch"))),
            gives_up=_GIVES_UP,
            extends=True,
            computes_more=True,
            compiles_more=True,
        )


def _is_own(node: cst.CSTNode) -> bool:
    """Whether a statement was added to the file by an earlier fix of packed sequences."""
    return isinstance(node, cst.FunctionDef) and f"\ndef {node.name.value}(" in _HELPERS


def _padding(
    packs: Sequence[cst.CSTNode],
    pads: Sequence[cst.CSTNode],
    layers: Sequence[cst.CSTNode],
    data: Sequence[cst.CSTNode],
) -> Transforming:
    """Return a transformer that replaces functions for packed sequences by functions for padded
    sequences."""
    packing, padding, computing, containing = (
        {id(one) for one in several} for several in (packs, pads, layers, data)
    )

    def pad(old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
        if isinstance(new, cst.Call) and id(old) in packing:
            args = [_with_lengths(at, one) for at, one in enumerate(new.args)]
            return new.with_changes(func=cst.Name("_packed"), args=args)
        if isinstance(new, cst.Call) and id(old) in padding:
            return new.with_changes(func=cst.Name("_padded"))
        if isinstance(new, cst.Call) and id(old) in computing:
            given = [cst.Arg(new.func), *new.args]
            return new.with_changes(func=cst.Name("_recurrent"), args=given)
        if isinstance(new, (cst.Subscript, cst.Attribute)) and id(old) in containing:
            given = [cst.Arg(new.value)]
            return cst.Call(cst.Name("_elements"), given, lpar=new.lpar, rpar=new.rpar)
        return new

    return Transforming(pad)


_GIVES_UP = (
    "The new code does not check that lengths are sorted and not 0. Compiling for training takes "
    "minutes for long sequences, and is repeated for each length."
)


def _layers(syntax: Syntax, packs: Sequence[cst.Call], calls: Sequence[cst.Call]) -> list[cst.Call]:
    """Return the calls in the file that execute a recurrent layer, or a layer that gets a packed
    sequence.

    ``packs`` are the calls that pack; ``calls`` are all calls in the file.
    """
    recurrent, others = _of_classes(syntax)
    everywhere = {name for _, name in recurrent}
    found: list[cst.Call] = []
    for call in calls:
        first = call.args[0] if call.args else None
        plain = first is not None and first.keyword is None and not any(a.star for a in call.args)
        names = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if not plain or first is None or len(call.args) > 2 or not names <= {"hx"}:
            continue
        place = call.func.value if isinstance(call.func, cst.Subscript) else call.func
        root, _, path = dotted_name(place).partition(".")
        name = path.rpartition(".")[2]
        own = (syntax.text.around(call, cst.ClassDef), path)
        known = own in recurrent if root == "self" and name == path else name in everywhere
        given = first.value in packs or (
            isinstance(first.value, cst.Name)
            and first.value.value in _bound_to(syntax.text.around(call, cst.FunctionDef), packs)
        )
        if name and (known or (given and root == "self" and own not in others)):
            found.append(call)
    return found


_LAYERS = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")
_Owned = set[tuple[Union[cst.CSTNode, None], str]]
"""Type for sets of attributes, as pairs of the class that assigns an attribute and the attribute's
name.
"""


def _of_classes(syntax: Syntax) -> tuple[_Owned, _Owned]:
    """Return two sets of attributes: the recurrent layers, and attributes that certainly hold
    something else.

    The second set has methods, and modules whose classes the file defines. Only classes of the file
    are considered.
    """
    recurrent: _Owned = set()
    others: _Owned = {
        (syntax.text.around(one, cst.ClassDef), one.name.value)
        for one in find_all(syntax.module, cst.FunctionDef)
    }
    own = {one.name.value for one in syntax.module.body if isinstance(one, cst.ClassDef)}
    for small in find_all(syntax.module, cst.Assign):
        calls = {syntax.called(one) for one in descendants(small.value)} - {""}
        for target in targets(small):
            root, _, name = dotted_name(target).partition(".")
            if root != "self" or not name or "." in name:
                continue
            if calls & set(_LAYERS):
                recurrent.add((syntax.text.around(small, cst.ClassDef), name))
            elif calls & own:
                others.add((syntax.text.around(small, cst.ClassDef), name))
    return recurrent, others


def _bound_to(
    function: cst.FunctionDef | None, calls: Sequence[cst.Call], *, first: bool = False
) -> set[str]:
    """Return the variables of a function that hold the results of ``calls``.

    With ``first``, the variables hold the first elements of the results.
    """
    found: set[str] = set()
    for small in find_all(function.body, cst.Assign) if function is not None else ():
        if small.value not in calls:
            continue
        for target in targets(small):
            names = bound_variables(target) or []
            found |= set(names[:1] if first and isinstance(target, cst.Tuple) else names)
    return found


def _data_of(
    syntax: Syntax, packs: Sequence[cst.Call], layers: Sequence[cst.Call]
) -> list[cst.CSTNode]:
    """Return the expressions that read the elements of a packed sequence.

    They read its ``data`` or its first element.
    """
    found: list[cst.CSTNode] = []
    for node in descendants(syntax.module):
        part = isinstance(node, cst.Subscript) and code_of(node).endswith("[0]")
        if not isinstance(node, (cst.Subscript, cst.Attribute)) or not (
            part or (isinstance(node, cst.Attribute) and node.attr.value == "data")
        ):
            continue
        if node.value in packs:
            found.append(node)
            continue
        function = syntax.text.around(node, cst.FunctionDef)
        if not isinstance(node.value, cst.Name) or function is None:
            continue
        packed = _bound_to(function, packs)
        of_packed = [
            one
            for one in layers
            if one.args[0].value in packs or code_of(one.args[0].value) in packed
        ]
        packed |= _bound_to(function, of_packed, first=True)
        other = [
            one
            for one in descendants(function)
            if isinstance(one, (cst.Assign, cst.AugAssign, cst.For, cst.Param, cst.NamedExpr))
            and node.value.value in names_bound(one)
            and getattr(one, "value", None) not in (*packs, *of_packed)
        ]
        if node.value.value in packed and not other:
            found.append(node)
    return found


def _with_lengths(at: int, arg: cst.Arg) -> cst.Arg:
    """Return an argument of ``pack_padded_sequence``; the argument ``lengths`` becomes a tensor.

    ``at`` is the index of the argument. From ``lengths``, conversions to numbers are removed:
    ``lengths.tolist()`` becomes ``lengths``.
    """
    if arg.keyword.value != "lengths" if arg.keyword is not None else at != 1:
        return arg
    value = arg.value
    while (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in _NUMBERS
    ):
        value = value.func.value
    return arg.with_changes(value=value)


def _helpers(syntax: Syntax, top: cst.CSTNode) -> list[cst.BaseStatement]:
    code = _HELPERS.replace("torch.", syntax.spelled("torch.x")[:-1])
    first, *rest = cst.parse_module(code, syntax.module.config_for_parsing).body
    leading = [one for one in getattr(top, "leading_lines", ()) if not one.comment]
    made: list[cst.BaseStatement] = [first.with_changes(leading_lines=leading)]
    return [*made, *(one.with_changes(leading_lines=BLANK) for one in rest)]


_HELPERS = '''\
_Packed = collections.namedtuple("_Packed", "steps, lengths, numbers")


def _packed(x, lengths, batch_first=False, enforce_sorted=True):
    """Padded sequences by time and batch, instead of a `PackedSequence`."""
    steps = x.transpose(0, 1) if batch_first else x
    numbers = None if isinstance(lengths, torch.Tensor) else list(lengths)
    if numbers is not None:
        steps, lengths = steps[: max(numbers)], torch.tensor(numbers)
    lengths = lengths.to(x.device)
    beyond = torch.arange(steps.shape[0], device=x.device).unsqueeze(1) >= lengths
    return _Packed(steps.masked_fill(_spread(beyond, steps), 0), lengths, numbers)


def _spread(beyond, steps):
    return beyond.view(beyond.shape + (1,) * (steps.dim() - 2))


def _trainable(x, weight):
    """`x`, with a gradient: for inputs without, oneDNN computes LSTMs, which cannot be compiled."""
    return x + 0 * weight.flatten()[0]


def _recurrent(layers, x, hx=None):
    """An LSTM, GRU or RNN whose states are those at the end of each sequence."""
    if not isinstance(x, _Packed):
        return layers(_trainable(x, layers.weight_ih_l0), hx)
    steps, lengths, numbers = x
    is_lstm = layers.mode == "LSTM"
    function = getattr(torch, layers.mode.lower())
    sides = 2 if layers.bidirectional else 1
    states = hx if is_lstm or hx is None else (hx,)
    if states is None:
        size = layers.num_layers * sides, steps.shape[1], layers.hidden_size
        hidden = steps.new_zeros(*size[:2], layers.proj_size or layers.hidden_size)
        states = (hidden, steps.new_zeros(size)) if is_lstm else (hidden,)
    weights = list(layers.parameters())
    count = len(weights) // (layers.num_layers * sides)
    time = torch.arange(steps.shape[0], device=steps.device).unsqueeze(1)
    beyond, back = (time >= lengths).unsqueeze(2), (lengths - 1 - time).clamp(min=0).unsqueeze(2)
    last = (lengths - 1).view(1, -1, 1)
    settings = layers.bias, 1, 0.0, layers.training, False, False
    ends = []
    for layer in range(layers.num_layers):
        outputs = []
        for side in range(sides):
            own = weights[len(ends) * count : (len(ends) + 1) * count]
            state = tuple(one[len(ends) : len(ends) + 1] for one in states)
            given = steps.gather(0, back.expand_as(steps)) if side else steps
            if is_lstm:
                # One more input, 1 beyond the end, where it opens the gate that keeps the state of
                # the cell, and shuts that of the input.
                given = torch.cat([given, _trainable(beyond.to(given.dtype), own[0])], 2)
                gates = torch.tensor([-1e4, 1e4, 0.0, 0.0]).repeat_interleave(layers.hidden_size)
                own[0] = torch.cat([own[0], gates.to(own[0]).unsqueeze(1)], 1)
            made, *end = function(given, state if is_lstm else state[0], own, *settings)
            end[0] = made.gather(0, last.expand(1, made.shape[1], made.shape[2]))
            made = made.gather(0, back.expand_as(made)) if side else made
            outputs.append(made.masked_fill(beyond, 0))
            ends.append(end)
        steps = torch.cat(outputs, 2)
        if layer + 1 < layers.num_layers:
            steps = torch.nn.functional.dropout(steps, layers.dropout, layers.training)
    end = tuple(torch.cat(one) for one in zip(*ends))
    return _Packed(steps, lengths, numbers), end if is_lstm else end[0]


def _padded(x, batch_first=False, padding_value=0.0, total_length=None):
    """What `pad_packed_sequence` returns."""
    steps, lengths, numbers = x
    if padding_value != 0.0:
        beyond = torch.arange(steps.shape[0], device=steps.device).unsqueeze(1) >= lengths
        steps = steps.masked_fill(_spread(beyond, steps), padding_value)
    if total_length is not None:
        more = (0, 0, 0, 0, 0, total_length - steps.shape[0])
        steps = torch.nn.functional.pad(steps, more, value=padding_value)
    elif numbers is None:
        longest = int(lengths.max())
        torch._check(longest >= 0)
        torch._check(longest <= steps.shape[0])
        steps = steps[:longest]
    return steps.transpose(0, 1) if batch_first else steps, lengths


def _elements(x):
    """What sequences have at each step, one step after the other, as `PackedSequence.data`."""
    steps, lengths, numbers = x
    if numbers is not None:
        counts = [sum(length > step for length in numbers) for step in range(max(numbers))]
        return torch.cat([steps[step, :count] for step, count in enumerate(counts)])
    return steps[torch.arange(steps.shape[0], device=steps.device).unsqueeze(1) < lengths]
'''
"""Source code of the functions for padded sequences that the rewrite adds to a file.

They have the signatures of torch's functions for packed sequences, which they replace.
"""
