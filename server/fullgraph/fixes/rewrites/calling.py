"""Rewrites of calls of compiled functions that recompile because arguments or modes vary.

After the rewrite, all calls pass arguments with the same strides or defaults, or run in the same
mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_calls, guard_of
from fullgraph.fixes.rewrites.if_conversion import statements_of
from fullgraph.fixes.rewrites.names import (
    code_of,
    find_all,
    named_parameters,
    names_read,
)
from fullgraph.fixes.rewrites.placing import insert_before
from fullgraph.fixes.rewrites.syntax import Syntax, callee, reads
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol.evidence import GuardFailure, RecompileEvidence

_ARGUMENT = re.compile(r"^L\['(?P<name>\w+)'\]$")
_IN_ARGUMENT = re.compile(r"^L\['(?P<name>\w+)'\](?P<attributes>(?:\.\w+)*)$")
_VIEW = re.compile(r"(?<![\w.])(?P<name>\w+)\.(?:storage_offset\(\)|_base\b)")
_VIEW_IN_ATTRIBUTE = re.compile(r"\w\.(?P<name>\w+)\.(?:storage_offset\(\)|stride\(\)|_base\b)")
_KEYS = re.compile(r"^list\(dict\.keys\(L\['(?P<name>\w+)'\]\)\)\[\d+\]$")
_MARKED = ("_dynamo_dynamic_indices", "_dynamo_dim_marking", "_dynamo_unbacked_indices")
_MARKS = ("mark_dynamic", "maybe_mark_dynamic", "mark_unbacked", "mark_static")
_WITHOUT_GRADIENTS = ("torch.no_grad", "torch.inference_mode")


def converted_arguments(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that convert an argument in each call: a tensor if its strides, its dtype or
    ``requires_grad`` vary, or if it is a view; a dictionary if its keys vary."""
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return
    kind = evidence.detail.partition(" ")[0]
    if found := _ARGUMENT.match(guard.source):
        pass
    elif found := _VIEW.search(guard.words):
        kind = "view"
    elif found := _KEYS.match(guard.source):
        kind = "keys"
    else:
        return
    name = found["name"]
    if kind == "keys" and not _ignores_keys(site.function, name):
        return
    for code, words, gives_up in _conversions(kind, name, guard):
        changes: list[tuple[cst.CSTNode, Change]] = []
        for call in compiled_calls(syntax, evidence.function):
            value = call.arguments.get(name)
            if value is None or (kind == "view" and syntax.called(value).startswith("torch.")):
                continue
            if code.count("{}") == 1 or isinstance(value, cst.Name):
                converted = code.replace("{}", syntax.operand(value))
                changes.append((value, syntax.expression(converted)))
        if changes:
            yield Candidate(
                "contiguous" if kind == "stride" else f"convert-{kind.replace('_', '-')}",
                words,
                site.replaced(changes),
                gives_up=gives_up,
                loses=("gradient",) if code.count("{}") > 1 else (),
            )


def _conversions(kind: str, name: str, guard: GuardFailure) -> Iterator[tuple[str, str, str]]:
    """Yield the code that converts an argument ``{}``, with a title and what the user gives up.

    ``kind`` is the property that varies between calls: ``stride``, ``dtype``, ``requires_grad``,
    ``view``, ``keys``.
    """
    if kind == "stride":
        gives_up = f"Each call copies `{name}` if it is not contiguous."
        yield "{}.contiguous()", f"Pass a contiguous `{name}`", gives_up
    elif kind == "dtype":
        gives_up = f"Each call converts `{name}`."
        for dtype in (guard.now, guard.was):
            yield "{}.to(" + dtype + ")", f"Pass `{name}` as `{dtype}`", gives_up
    elif kind == "view":
        gives_up = f"Each call copies `{name}`."
        yield "{}.clone()", f"Pass a copy of `{name}`, and not a view", gives_up
    elif kind == "keys":
        gives_up = f"The keys of `{name}` are not passed."
        words = f"Pass the values of `{name}` with their numbers as keys"
        yield "dict(enumerate({}.values()))", words, gives_up
    elif kind == "requires_grad":
        words = f"Pass a detached `{name}`"
        yield "{}.detach()", words, f"`{name}` does not get a gradient from these calls."
        code = "({} if {}.requires_grad else {}.detach().requires_grad_())"
        gives_up = f"The backward pass also computes the gradient of `{name}`."
        yield code, f"Pass `{name}` so that it always requires a gradient", gives_up


def copied_attributes(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that copies tensors where the file assigns them to an attribute.

    The finding is that the attribute is a view in some calls, with another offset in its memory.
    """
    guard, syntax = guard_of(site.finding), Syntax(site)
    found = _VIEW_IN_ATTRIBUTE.search(guard.words) if guard is not None else None
    changes: list[tuple[cst.CSTNode, Change]] = []
    for assign in find_all(site.module, cst.Assign) if found is not None else ():
        assert found is not None
        targets: list[cst.CSTNode] = [assign.targets[0].target]
        values: list[cst.BaseExpression] = [assign.value]
        if isinstance(targets[0], cst.Tuple) and isinstance(assign.value, cst.Tuple):
            targets = [one.value for one in targets[0].elements]
            values = [one.value for one in assign.value.elements]
        if any(m.matches(one, m.Attribute(attr=m.Name(found["name"]))) for one in targets):
            changes += [
                (one, syntax.expression(f"{code_of(one)}.clone()"))
                for one in values
                if isinstance(one, (cst.Name, cst.Subscript)) and code_of(one) != "None"
            ]
    if changes and found is not None:
        yield Candidate(
            "copied-attributes",
            f"Keep a copy in `{found['name']}`, and not a view",
            site.replaced(changes),
            gives_up="Each assignment copies the tensor.",
        )


def _ignores_keys(function: cst.CSTNode | None, name: str) -> bool:
    """Whether a function uses the dictionary ``name`` only to loop over its values."""
    if not isinstance(function, cst.FunctionDef):
        return False
    method = m.Attribute(m.Name(name), m.Name("values") | m.Name("items"))
    values = 0
    for loop in find_all(function.body, cst.For, m.For(iter=m.Call(method))):
        is_pair = m.matches(loop.target, m.Tuple([m.Element(m.Name()), m.Element()]))
        of_values = m.matches(loop.iter, m.Call(m.Attribute(attr=m.Name("values"))))
        if is_pair and not of_values:
            key = cst.ensure_type(loop.target, cst.Tuple).elements[0].value
            of_values = code_of(key) not in names_read(loop.body)
        values += of_values
    return values == len(reads(function.body, name)) > 0


def uncompiled_evaluation(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that runs evaluation without gradients in eager mode, by ``set_stance``.

    The finding is a recompile because gradients were turned off or on, or because the mode of a
    module changed.
    """
    evidence, syntax = site.finding.evidence, Syntax(site)
    words = " ".join(one.words for one in getattr(evidence, "guards", ()))
    if not isinstance(evidence, RecompileEvidence) or not (
        site.finding.code == "recompile/mode" or ".training" in words
    ):
        return
    stance = f'{syntax.spelled("torch.compiler.set_stance")}("force_eager")'
    changes: list[tuple[cst.CSTNode, Change]] = []
    for block in find_all(site.module, cst.With):
        if any(syntax.name(callee(one.item)) in _WITHOUT_GRADIENTS for one in block.items):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            first = [
                one if isinstance(one.comma, cst.Comma) else one.with_changes(comma=comma)
                for one in block.items
            ]
            items = [*first, cst.WithItem(syntax.expression(stance))]
            for old, new in zip(block.items, items, strict=False):
                changes.append((old, new))
            last = block.items[-1]
            changes = [one for one in changes if one[0] is not last]
            changes.append((last, cst.FlattenSentinel(items[-2:])))
    if changes:
        yield Candidate(
            "uncompiled-evaluation",
            "Do not compile in evaluation mode",
            site.replaced(changes),
            gives_up="Evaluation runs in eager mode, which may be slower.",
        )


def uncompiled_first_call(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that runs calls of one kind in eager mode, if only the first call is of this
    kind: a cache is still None, the state has another dtype, or the state of an optimizer is
    still empty.
    """
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return
    found = _IN_ARGUMENT.match(guard.source)
    numbers = [number for one in site.finding.calls for number in one.numbers]
    if min(numbers, default=0) != 2:
        return
    optimizer = _optimizer(syntax) if ".state[" in guard.words else None
    attributes = found["attributes"] if found is not None else ""
    if optimizer is not None:
        test = f"not {optimizer}.state"
    elif found is None:
        return
    elif guard.was == "None" and site.finding.code == "recompile/type":
        test = f"{attributes} is None"
    elif evidence.detail == "dtype":
        test = f"{attributes}.dtype == {guard.was}"
    else:
        return
    stance = f"{syntax.spelled('torch.compiler.set_stance')}"
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in compiled_calls(syntax, evidence.function):
        value = call.arguments.get(found["name"]) if found is not None else None
        line = syntax.text.around(call.node, cst.SimpleStatementLine)
        if not isinstance(line, cst.SimpleStatementLine):
            return
        if isinstance(value, cst.Name) or optimizer is not None:
            argument = value.value if isinstance(value, cst.Name) else ""
            code = f'{stance}("force_eager" if {argument}{test} else "default")'
        elif value is None and guard.was == "None" and not attributes:
            code = f'{stance}("force_eager")'
        else:
            continue
        body = cst.IndentedBlock([line.with_changes(leading_lines=())])
        item = cst.WithItem(syntax.expression(code))
        changes.append((line, cst.With([item], body, leading_lines=line.leading_lines)))
    if changes:
        name = found["name"] if found is not None and optimizer is None else ""
        yield Candidate(
            "uncompiled-first-call",
            f"Do not compile calls where `{name}{test}`",
            site.replaced(changes, imports=syntax.imports_for(stance)),
            gives_up="These calls run in eager mode, which may be slower.",
        )


def _optimizer(syntax: Syntax) -> str | None:
    """Return the variable that holds the only optimizer of the file; None unless the file has
    exactly one."""
    found = [
        code_of(assign.targets[0].target)
        for assign in m.findall(syntax.module, m.Assign(value=m.Call()))
        if isinstance(assign, cst.Assign)
        and syntax.called(assign.value).rpartition(".")[0] == "torch.optim"
    ]
    return found[0] if len(found) == 1 else None


def marked_before_first_call(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that marks the sizes of a tensor before the first call with the tensor, if
    the program marks them later."""
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return
    found = _ARGUMENT.match(guard.source)
    if found is None or not any(one in guard.words for one in _MARKED):
        return
    calls = compiled_calls(syntax, evidence.function)
    tensor = calls[0].arguments.get(found["name"]) if calls else None
    lines = [
        line
        for line in m.findall(site.module, m.SimpleStatementLine([m.Expr(m.Call())]))
        if isinstance(line, cst.SimpleStatementLine)
        and tensor is not None
        and _marked_tensor(syntax, line) == code_of(tensor)
    ]
    if not lines or not isinstance(tensor, cst.Name):
        return
    marks = [one.body[0] for one in lines]
    changes = insert_before(site, calls[0].node, marks)
    if changes is not None:
        gone: list[tuple[cst.CSTNode, Change]] = [(one, cst.RemoveFromParent()) for one in lines]
        yield Candidate(
            "marked-before",
            f"Mark the sizes of `{tensor.value}` before the first call",
            site.replaced([*changes, *gone]),
            gives_up="All calls use the code with dynamic sizes.",
        )


def _marked_tensor(syntax: Syntax, line: cst.SimpleStatementLine) -> str:
    """Return the code of the tensor whose sizes a statement marks; empty for other statements."""
    call = cst.ensure_type(cst.ensure_type(line.body[0], cst.Expr).value, cst.Call)
    is_mark = syntax.called(call).rpartition(".")[2] in _MARKS
    return code_of(call.args[0].value) if is_mark and call.args else ""


def default_arguments(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of calls that pass None for an argument in some cases: they pass a default
    value instead.

    The default is the expression that the compiled function assigns: ``if state is None: state =
    zeros_like(x)``.
    """
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    function = site.function
    found = _ARGUMENT.match(guard.source) if guard is not None else None
    if not isinstance(evidence, RecompileEvidence) or found is None:
        return
    if site.finding.code != "recompile/type" or not isinstance(function, cst.FunctionDef):
        return
    name = found["name"]
    default = _default_value(function, name)
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in compiled_calls(syntax, evidence.function):
        value = call.arguments.get(name)
        if default is None or value is None or not isinstance(value, cst.Name):
            continue
        needed = names_read(default).keys() & {*named_parameters(function)}
        given = {one: call.arguments.get(one) for one in needed}
        if not all(isinstance(one, cst.Name) for one in given.values()):
            continue
        renamed = [
            (node, new)
            for node in find_all(default, cst.Name)
            if (new := given.get(node.value)) is not None
        ]
        passed = code_of(default.visit(Replacing(renamed)))  # type: ignore[arg-type]
        code = f"({passed} if {value.value} is None else {value.value})"
        changes.append((value, syntax.expression(code)))
    if changes:
        yield Candidate(
            "default-argument",
            f"Pass a tensor for `{name}` also where it is None",
            site.replaced(changes),
            gives_up=f"The caller computes the default value of `{name}`.",
        )


def _default_value(function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    """Return the expression ``value`` if the function contains ``if name is None: name = value``;
    None otherwise.
    """
    test = m.Comparison(m.Name(name), [m.ComparisonTarget(m.Is(), m.Name("None"))])
    for branch in find_all(function.body, cst.If, m.If(test=test, orelse=None)):
        lines = statements_of(branch.body)
        small = lines[0].body[0] if isinstance(lines[0], cst.SimpleStatementLine) else None
        if len(lines) != 1 or not isinstance(small, cst.Assign):
            continue
        if code_of(small.targets[0].target) == name:
            return small.value
    return None
