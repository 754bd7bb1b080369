"""Numbers by which code fits some sizes only, left to torch."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.syntax import Syntax, arguments, assigned, bound, dotted, targets
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import SpecializationEvidence

_POOL = re.compile(r"(?P<kind>avg|max)_pool(?P<rank>[123])d|(?P<class>Avg|Max)Pool(?P<dims>[123])d")


def limited(site: Site) -> Iterator[Candidate]:
    """``a, b = x.split(3)`` becomes ``x.chunk(2)``, and a pooling with a window of a fixed size one
    with a result of a fixed size."""
    evidence = site.finding.evidence
    if site.finding.code != "guard/limited-dimension" or site.statement is None:
        return
    if not isinstance(evidence, SpecializationEvidence) or not evidence.value.isdigit():
        return
    syntax = Syntax(site)
    yield from _split(syntax)
    yield from _pooled(syntax, int(evidence.value))


def _split(syntax: Syntax) -> Iterator[Candidate]:
    small = syntax.statement
    call = assigned(small.node) if small is not None else None
    if small is None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return
    names = [bound(one) for one in targets(small.node) if isinstance(one, (cst.Tuple, cst.List))]
    first = 1 if code_of(call.func.value) == "torch" else 0
    size = call.args[first].value if len(call.args) > first else None
    if call.func.attr.value != "split" or not names or not names[0]:
        return
    if size is None or isinstance(size, (cst.Tuple, cst.List)):
        return
    new = as_chunk(call, call.func, first, len(names[0]))
    yield Candidate(
        "chunk",
        "Split into equal parts with `chunk`",
        syntax.site.replaced([(call, new)]),
        gives_up="Sizes for which the original raises are computed.",
        extends=True,
    )


def as_chunk(call: cst.Call, func: cst.Attribute, place: int, count: int) -> cst.Call:
    """The call of ``split``, with its sizes at a place, that gives so many equal parts."""
    args = list(call.args)
    args[place] = _plain(args[place], count)
    return call.with_changes(func=func.with_changes(attr=cst.Name("chunk")), args=args)


def _plain(arg: cst.Arg, number: int) -> cst.Arg:
    """A number in place of an argument, without its keyword."""
    value = cst.Integer(str(number))
    return arg.with_changes(value=value, keyword=None, equal=cst.MaybeSentinel.DEFAULT)


def _pooled(syntax: Syntax, size: int) -> Iterator[Candidate]:
    site = syntax.site
    for call in m.findall(site.statement, m.Call()) if site.statement is not None else ():
        assert isinstance(call, cst.Call)
        given = arguments(call)
        name = _POOL.fullmatch(dotted(call.func).rpartition(".")[2])
        if name is not None and name["kind"] and given is not None and len(given) == 2:
            yield from _adaptive(site, call, name, given[1], size)
        attribute = dotted(call.func)
        for made in _layers(site, attribute) if attribute.startswith("self.") else ():
            layer = _POOL.fullmatch(dotted(made.func).rpartition(".")[2])
            window = arguments(made)
            if layer is not None and layer["class"] and window is not None and len(window) == 1:
                yield from _adaptive(site, made, layer, window[0], size)


def _adaptive(
    site: Site, call: cst.Call, name: re.Match[str], window: cst.BaseExpression, size: int
) -> Iterator[Candidate]:
    """The call with the size of its result in place of its window."""
    try:
        count = size // int(code_of(window))
    except (ValueError, ZeroDivisionError):
        return
    of = call.func.value if isinstance(call.func, cst.Attribute) else None
    adaptive = (
        f"adaptive_{name['kind']}_pool{name['rank']}d"
        if name["kind"]
        else f"Adaptive{name['class']}Pool{name['dims']}d"
    )
    func = cst.Attribute(of, cst.Name(adaptive)) if of is not None else cst.Name(adaptive)
    *others, last = call.args
    new = call.with_changes(func=func, args=[*others, _plain(last, count)])
    title = f"Pool to {count} with `{adaptive}`, whatever the size is"
    yield Candidate(
        "adaptive-pooling",
        title,
        site.replaced([(call, new)]),
        gives_up="The original leaves out what is behind its last window.",
        suggestion=True,
    )


def _layers(site: Site, attribute: str) -> Iterator[cst.Call]:
    """The calls by which the class around the finding makes a layer."""
    for constructor in site.constructors:
        for assign in m.findall(constructor, m.Assign(value=m.Call())):
            assert isinstance(assign, cst.Assign)
            if attribute in (dotted(one.target) for one in assign.targets):
                yield cst.ensure_type(assign.value, cst.Call)
