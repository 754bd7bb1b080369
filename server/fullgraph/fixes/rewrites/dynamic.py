"""Rewrites that make sizes and numbers dynamic from the first call on; Dynamo does so only at the
second call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import (
    CompiledCallSite,
    compile_expressions,
    compiled_calls,
    guard_of,
    with_option,
)
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.placing import insert_before, is_bound_around
from fullgraph.fixes.rewrites.syntax import Syntax, free_variable, names_in
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol import Finding
from fullgraph_engine.protocol.evidence import RecompileEvidence

_LOCAL = re.compile(r"^L\['(?P<name>\w+)'\](?P<index>\[\d+\])?$")
_SIZE = re.compile(r"^`[\w.\[\]]+\.shape\[(?P<axis>\d+)\]` was (?P<was>\d+), now (?P<now>\d+)")
_SIZES = re.compile(r"(?<![\w.\]])(\w+)\.shape\[(\d+)\]")
_INTEGER = re.compile(r"^-?\d+$")
_NUMBER = re.compile(r"^-?\d+(?:\.\d*)?(?:e[-+]?\d+)?$")
_MARKS = {False: "torch._dynamo.mark_dynamic", True: "torch._dynamo.decorators.mark_unbacked"}
"""Name of the function that marks a size as dynamic. The key is True if the size is 0 or 1 in the
first call.
"""
_NEEDS_CONSTANT = "Compiling raises an error where code needs a marked size to be a constant."
_NEEDS_TO_KNOW = "Compiling raises an error where code depends on the value of a marked size."
_ALL_DYNAMIC = "All sizes in the compiled code are dynamic, so it may be slower."
_STATIC_PARAMETERS = "torch._dynamo.config.force_parameter_static_shapes = False"
_STATIC_MODULES = "torch._dynamo.config.force_nn_module_property_static_shapes = False"
_MOST_PLACES = 4
"""Maximum number of calls of the compiled function for which marking sizes is tried."""


def dynamic(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that make a size or a number dynamic from the first call on.

    A rewrite uses ``mark_dynamic`` where the file calls the function, or ``dynamic=True`` where
    the file compiles the function. ``mark_unbacked`` is for a first size of 0 or 1, which Dynamo
    otherwise makes a constant. Arguments that must first be assigned to variables are marked last.
    """
    evidence = site.finding.evidence
    if not isinstance(evidence, RecompileEvidence):
        return
    syntax = Syntax(site)
    if site.finding.code == "recompile/size":
        yield from _mark_arguments(syntax, evidence, assigned=False)
    if _may_be_dynamic(site.finding, evidence):
        yield from _with_dynamic(syntax, evidence)
    if site.finding.code == "recompile/size":
        yield from _mark_arguments(syntax, evidence, assigned=True)


def _may_be_dynamic(finding: Finding, evidence: RecompileEvidence) -> bool:
    """Whether a finding is about a size or a number, which Dynamo can replace by a symbol."""
    guard = guard_of(finding)
    is_number = guard is not None and all(map(_NUMBER.match, (guard.was, guard.now)))
    of_size = finding.code == "recompile/size" and not evidence.detail
    return is_number or of_size or evidence.detail.startswith("size ")


def dynamic_changes(syntax: Syntax, function: str) -> list[tuple[cst.CSTNode, Change]]:
    """Return the changes that add ``dynamic=True`` where the file compiles the function."""
    pairs = [
        (node, with_option(node, "dynamic", "True"))
        for node in compile_expressions(syntax, function)
    ]
    return [(node, new) for node, new in pairs if new is not None]


def _with_dynamic(syntax: Syntax, evidence: RecompileEvidence) -> Iterator[Candidate]:
    changes = dynamic_changes(syntax, evidence.function)
    choices = [[one] for one in changes] + ([changes] if len(changes) > 1 else [])
    for chosen in choices:
        yield Candidate(
            "dynamic",
            f"Compile `{evidence.function}` with `dynamic=True`",
            syntax.site.replaced(chosen),
            preserves=True,
            gives_up=_ALL_DYNAMIC,
        )


def dynamic_settings(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that set torch to keep more values dynamic, in addition to ``dynamic=True``.

    They are for sizes of parameters, for integer attributes of modules, and for a size that equals
    another one in the first call.
    """
    finding, evidence, syntax = site.finding, site.finding.evidence, Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or not _may_be_dynamic(finding, evidence):
        return
    changes = dynamic_changes(syntax, evidence.function)
    also = ", and compile with `dynamic=True`" if changes else ""
    for setting, words in _settings(finding, evidence):
        text = syntax.with_setting(setting, changes)
        if text is not None:
            yield Candidate(
                "dynamic-setting",
                f"Set {_names_of(setting)}{also}",
                text,
                preserves=True,
                gives_up=f"{words} {_ALL_DYNAMIC}" if changes else words,
            )


def _names_of(setting: str) -> str:
    names = [f"`{line.partition(' = ')[0]}`" for line in setting.split("\n")]
    return " and ".join(names)


def _settings(finding: Finding, evidence: RecompileEvidence) -> Iterator[tuple[str, str]]:
    """Yield settings of torch that may help, each with a sentence on their effect."""
    guard = guard_of(finding)
    whole = "The setting applies to the whole program:"
    if finding.code == "recompile/size":
        if any("Parameter" in one.expression for one in evidence.guards):
            in_module = any("_parameters" in one.source for one in evidence.guards)
            yield (
                _STATIC_PARAMETERS + (f"\n{_STATIC_MODULES}" if in_module else ""),
                f"{whole} sizes of parameters are dynamic.",
            )
        yield (
            "torch.fx.experimental._config.use_duck_shape = False",
            f"{whole} sizes that are equal in the first call are not expected to stay equal.",
        )
    elif guard is not None and _INTEGER.match(guard.was) and "self" in guard.source:
        yield (
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
            f"{whole} integer attributes of modules are dynamic.",
        )


def _mark_arguments(
    syntax: Syntax, evidence: RecompileEvidence, *, assigned: bool
) -> Iterator[Candidate]:
    """Yield rewrites that mark the varying sizes of tensor arguments as dynamic before a call.

    ``evidence`` has the name of the compiled function and the guards that failed. ``assigned``
    selects the calls with arguments that must first be assigned to variables; otherwise the other
    calls.
    """
    sizes: dict[tuple[str, str], bool] = {}
    for guard in evidence.guards:
        local, size = _LOCAL.match(guard.source), _SIZE.match(guard.words)
        if local and size:
            key = local["name"] + (local["index"] or ""), size["axis"]
            small = not {size["was"], size["now"]}.isdisjoint(("0", "1"))
            sizes[key] = small or sizes.get(key, False)
    for words in (one.words for one in evidence.guards if not one.source):
        # A condition on a size decides as 0 and 1 do: only an unknown size does not need it.
        for name, axis in _SIZES.findall(words):
            sizes[name, axis] = True
    if not sizes:
        return
    calls = compiled_calls(syntax, evidence.function) or _call_here(syntax)
    for call in calls[:_MOST_PLACES]:
        yield from _mark_call(syntax, call, sizes, assigned=assigned)
        if any(sizes.values()):
            known = dict.fromkeys(sizes, False)
            yield from _mark_call(syntax, call, known, assigned=assigned)


def _call_here(syntax: Syntax) -> list[CompiledCallSite]:
    """Return the call at the finding, which calls a compiled module of a library, with its
    arguments by their place in ``args``."""
    call = syntax.site.expression
    if not isinstance(call, cst.Call):
        return []
    given = {f"args[{number}]": one.value for number, one in enumerate(call.args)}
    return [CompiledCallSite(call, given)]


def _mark_call(
    syntax: Syntax,
    call: CompiledCallSite,
    sizes: Mapping[tuple[str, str], bool],
    *,
    assigned: bool,
) -> Iterator[Candidate]:
    """Yield rewrites that mark the arguments of one call.

    ``sizes`` are argument and dimension, with whether it is marked as unbacked. An argument that
    is an expression is assigned to a variable first. Yield nothing if ``assigned`` does not say
    whether there is such an argument.
    """
    marks = {small: syntax.spelled(_MARKS[small]) for small in sizes.values()}
    lines: list[cst.BaseSmallStatement] = []
    codes: list[str] = []
    named: dict[str, str] = {}
    changes: list[tuple[cst.CSTNode, Change]] = []
    for (name, axis), small in sizes.items():
        tensor = call.arguments.get(name) or _starred_argument(syntax, call, name)
        if tensor is None or is_bound_around(syntax.site, call.node, names_in(tensor)):
            return
        if name not in named:
            named[name] = code_of(tensor)
            if not _is_same_object(tensor):
                named[name] = free_variable(syntax, name)
                target = cst.AssignTarget(cst.Name(named[name]))
                lines.append(cst.Assign([target], tensor))
                changes.append((tensor, cst.Name(named[name])))
        codes.append(f"{marks[small]}({named[name]}, {axis})")
    if assigned == bool(lines):
        yield from _mark_before(syntax, call.node, codes, marks, (lines, changes))


def _is_same_object(node: cst.BaseExpression) -> bool:
    """Whether an expression gives the same tensor each time: a variable, attribute or item."""
    if isinstance(node, cst.Subscript):
        return all(m.matches(one.slice, m.Index(m.SimpleString())) for one in node.slice)
    return isinstance(node, (cst.Name, cst.Attribute))


def _starred_argument(
    syntax: Syntax, call: CompiledCallSite, name: str
) -> cst.BaseExpression | None:
    """Return ``options["name"]`` if the call has ``**options``, which may contain the argument."""
    starred = [one.value for one in call.node.args if one.star == "**"]
    if len(starred) != 1 or not isinstance(starred[0], cst.Name):
        return None
    return syntax.expression(f'{starred[0].value}["{name}"]')


def _mark_before(
    syntax: Syntax,
    call: cst.Call,
    codes: Sequence[str],
    marks: Mapping[bool, str],
    assigned: tuple[Sequence[cst.BaseSmallStatement], Sequence[tuple[cst.CSTNode, Change]]],
) -> Iterator[Candidate]:
    """Yield rewrites that insert the statements ``codes`` before a call.

    ``marks`` are the functions that they call, with the key True for ``mark_unbacked``.
    ``assigned`` are assignments of arguments to variables, and the changes of the call for them.
    """
    before, changed = assigned
    lines = [cst.Expr(syntax.expression(code)) for code in codes]
    # If a function with the call is traced as well, Dynamo refuses to trace the call that marks a
    # size.
    test = syntax.expression(f"not {syntax.spelled('torch.compiler.is_compiling')}()")
    eager = cst.If(test, cst.IndentedBlock([cst.SimpleStatementLine([one]) for one in lines]))
    imports = [one for mark in marks.values() for one in syntax.imports_for(mark)]
    function = syntax.text.around(call, cst.FunctionDef)
    is_traced = False if function is None else syntax.text.is_traced(function)
    for new in (lines,) if is_traced is False else (lines, [eager]):
        changes = insert_before(syntax.site, call, [*before, *new])
        if changes is not None:
            # A change of the call is inside the statement, which the other change replaces.
            (old, above), *_ = changes
            assert isinstance(above, cst.FlattenSentinel)
            *first, last = above
            below = last.visit(Replacing(list(changed))) if changed else last
            yield Candidate(
                "mark-unbacked" if True in marks else "mark-dynamic",
                f"Mark the varying size with `{codes[0]}`",
                syntax.site.replaced(
                    [(old, cst.FlattenSentinel([*first, below]))],
                    imports=list(dict.fromkeys(imports)),
                ),
                preserves=True,
                gives_up=_NEEDS_TO_KNOW if True in marks else _NEEDS_CONSTANT,
            )
