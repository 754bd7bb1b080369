"""Rewrites that make sizes and numbers dynamic from the first call on; Dynamo does so only at the
second call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import (
    compile_expressions,
    compiled_calls,
    guard_of,
    with_option,
)
from fullgraph.fixes.rewrites.placing import insert_before
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol import Finding
from fullgraph_engine.protocol.evidence import RecompileEvidence

_LOCAL = re.compile(r"^L\['(?P<name>\w+)'\]$")
_SIZE = re.compile(r"^`(?P<name>\w+)\.shape\[(?P<axis>\d+)\]` was (?P<size>\d+),")
_INTEGER = re.compile(r"^-?\d+$")
_NUMBER = re.compile(r"^-?\d+(?:\.\d*)?(?:e[-+]?\d+)?$")
_MARKS = {False: "torch._dynamo.mark_dynamic", True: "torch._dynamo.decorators.mark_unbacked"}
"""Name of the function that marks a size as dynamic. The key is True if the size is 0 or 1 in the
first call.
"""
_NEEDS_CONSTANT = "Compiling raises where code needs such a size to be a constant."
_NEEDS_TO_KNOW = "Compiling raises where code depends on such a size."
_ALL_DYNAMIC = "All its sizes are dynamic, so the compiled code may be slower."
_STATIC_PARAMETERS = "torch._dynamo.config.force_parameter_static_shapes = False"
_STATIC_MODULES = "torch._dynamo.config.force_nn_module_property_static_shapes = False"
_MOST_PLACES = 4
"""Maximum number of calls of the compiled function for which marking sizes is tried."""


def dynamic(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that make a size or a number dynamic from the first call on.

    A rewrite uses ``mark_dynamic`` where the file calls the function, or ``dynamic=True`` where
    the file compiles the function. ``mark_unbacked`` is for a first size of 0 or 1, which Dynamo
    otherwise makes a constant.
    """
    evidence = site.finding.evidence
    if not isinstance(evidence, RecompileEvidence):
        return
    syntax = Syntax(site)
    if evidence.detail.startswith("size "):
        yield from _mark_arguments(syntax, evidence)
    if _may_be_dynamic(site.finding, evidence):
        yield from _with_dynamic(syntax, evidence)


def _may_be_dynamic(finding: Finding, evidence: RecompileEvidence) -> bool:
    """Whether a finding is about a size or a number, which Dynamo can replace by a symbol."""
    guard = guard_of(finding)
    is_number = guard is not None and all(map(_NUMBER.match, (guard.was, guard.now)))
    of_size = finding.code == "recompile/size" and not evidence.detail
    return is_number or of_size or evidence.detail.startswith("size ")


def _dynamic_changes(syntax: Syntax, function: str) -> list[tuple[cst.CSTNode, Change]]:
    """Return the changes that add ``dynamic=True`` where the file compiles the function."""
    pairs = [
        (node, with_option(node, "dynamic", "True"))
        for node in compile_expressions(syntax, function)
    ]
    return [(node, new) for node, new in pairs if new is not None]


def _with_dynamic(syntax: Syntax, evidence: RecompileEvidence) -> Iterator[Candidate]:
    changes = _dynamic_changes(syntax, evidence.function)
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
    changes = _dynamic_changes(syntax, evidence.function)
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


def _mark_arguments(syntax: Syntax, evidence: RecompileEvidence) -> Iterator[Candidate]:
    """Yield rewrites that mark the varying sizes of tensor arguments as dynamic before a call.

    ``evidence`` has the name of the compiled function and the guards that failed.
    """
    sizes: dict[tuple[str, str], bool] = {}
    for guard in evidence.guards:
        local, size = _LOCAL.match(guard.source), _SIZE.match(guard.words)
        if local and size:
            key = local["name"], size["axis"]
            sizes[key] = size["size"] in ("0", "1") or sizes.get(key, False)
    if not sizes:
        return
    for call in compiled_calls(syntax, evidence.function)[:_MOST_PLACES]:
        tensors = [(call.arguments.get(name), axis, small) for (name, axis), small in sizes.items()]
        if any(not isinstance(tensor, cst.Name) for tensor, _, _ in tensors):
            continue
        marks = {small: syntax.spelled(_MARKS[small]) for _, _, small in tensors}
        codes = [
            f"{marks[small]}({syntax.site.code(one)}, {axis})"
            for one, axis, small in tensors
            if one is not None
        ]
        yield from _mark_before(syntax, call.node, codes, list(marks.values()), True in marks)


def _mark_before(
    syntax: Syntax, call: cst.Call, codes: Sequence[str], marks: Sequence[str], unbacked: bool
) -> Iterator[Candidate]:
    """Yield rewrites that insert the statements ``codes`` before a call.

    The statements call the functions ``marks``, such as ``torch._dynamo.mark_dynamic``.
    ``unbacked`` is true if they call ``mark_unbacked``.
    """
    lines = [cst.Expr(syntax.expression(code)) for code in codes]
    # If the caller is traced as well, Dynamo refuses to trace the call that marks a size.
    test = syntax.expression(f"not {syntax.spelled('torch.compiler.is_compiling')}()")
    eager = cst.If(test, cst.IndentedBlock([cst.SimpleStatementLine([one]) for one in lines]))
    imports = [one for mark in marks for one in syntax.imports_for(mark)]
    for new in (lines, [eager]):
        changes = insert_before(syntax.site, call, new)
        if changes is not None:
            yield Candidate(
                "mark-unbacked" if unbacked else "mark-dynamic",
                f"Mark the varying size with `{codes[0]}`",
                syntax.site.replaced(changes, imports=list(dict.fromkeys(imports))),
                preserves=True,
                gives_up=_NEEDS_TO_KNOW if unbacked else _NEEDS_CONSTANT,
            )
