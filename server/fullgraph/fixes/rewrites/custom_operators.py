"""Foreign functions as operators of torch, and fake kernels from the sizes that were seen."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.disable import free_name, global_names, in_function, smallest_call
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.syntax import Syntax, bound, dotted, targets
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import (
    BreakEvidence,
    ExportEvidence,
    OperatorCall,
    TensorForm,
)

_DEFINES = "torch.library.custom_op"
_SKIPPED = "Attempted to call function marked as skipped"
_LITERALS = (cst.BaseNumber, cst.SimpleString, cst.UnaryOperation)
_CONSTANTS = ("True", "False", "None")


def wrapped(site: Site) -> Iterator[Candidate]:
    """A call of a function that Dynamo cannot look into, as an operator without a fake kernel:
    that one is made of the calls of it, once it was tried."""
    syntax = Syntax(site)
    call = smallest_call(syntax)
    if not isinstance(call, cst.Call):
        return
    function = dotted(call.func)
    root = function.partition(".")[0]
    package = syntax.imported.get(root, "").partition(".")[0]
    evidence = site.finding.evidence
    skipped = isinstance(evidence, BreakEvidence) and evidence.title == _SKIPPED
    if (
        not skipped
        or root not in global_names(syntax)
        or isinstance(syntax.text.parent(call), cst.Expr)
    ):
        return
    # Functions of torch are operators, or have reasons not to be.
    if package in ("", "torch", *sys.stdlib_module_names):
        return
    parameters, arguments, inside = _arguments(call)
    if not parameters:
        return
    name = free_name(site, call, "_")
    tensor = syntax.spelled("torch.Tensor")
    several = _taken_apart(syntax, call)
    returned = f"tuple[{', '.join([tensor] * several)}]" if several else tensor
    typed = ", ".join(f"{one}: {tensor}" for one in parameters)
    definition = (
        f'@{syntax.spelled(_DEFINES)}("custom::{name.strip("_")}", mutates_args=())\n'
        f"def {name}({typed}) -> {returned}:\n    return {function}({', '.join(inside)})\n"
    )
    detached = [f"{syntax.operand(syntax.expression(one))}.detach()" for one in arguments]
    for given in (arguments, detached):
        text = in_function(syntax, call, definition, f"{name}({', '.join(given)})")
        if text is not None:
            yield Candidate(
                "custom-operator",
                f"Make an operator of `{function}`",
                text,
                gives_up="It has no gradient.",
                parts=("export",),
            )


def _arguments(call: cst.Call) -> tuple[list[str], list[str], list[str]]:
    """Names of the parameters that an operator needs, what it is called with, and what it gives to
    the function: constants stay inside. Nothing where arguments are behind a star."""
    parameters: list[str] = []
    arguments: list[str] = []
    inside: list[str] = []
    for number, arg in enumerate(call.args):
        if arg.star:
            return [], [], []
        keyword = f"{arg.keyword.value}=" if arg.keyword is not None else ""
        code = code_of(arg.value)
        if isinstance(arg.value, _LITERALS) or code in _CONSTANTS:
            inside.append(keyword + code)
            continue
        last = dotted(arg.value).rpartition(".")[2]
        name = last if last and last not in parameters else f"input{number}"
        parameters.append(name)
        arguments.append(code)
        inside.append(keyword + name)
    return parameters, arguments, inside


def _taken_apart(syntax: Syntax, call: cst.Call) -> int:
    """Into how many variables the result is unpacked at once; 0 where it is not."""
    small = syntax.small
    if small is None or getattr(small.node, "value", None) is not call:
        return 0
    names = [bound(one) for one in targets(small.node) if isinstance(one, (cst.Tuple, cst.List))]
    return len(names[0]) if names and names[0] else 0


def faked(site: Site) -> Iterator[Candidate]:
    """A fake kernel for an operator of the file: each size is one of an input, or a constant."""
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or not evidence.calls:
        return
    namespace, _, rest = evidence.operator.partition(".")
    name = f"{namespace}::{rest.partition('.')[0]}"
    syntax = Syntax(site)
    if name in _registered(syntax):
        return
    for function in m.findall(syntax.module, m.FunctionDef()):
        assert isinstance(function, cst.FunctionDef)
        if name not in (_defined(syntax, one.decorator) for one in function.decorators):
            continue
        parameters = [one.name.value for one in function.params.params]
        for outputs in _outputs(syntax, evidence.calls, parameters):
            kernel = cst.parse_statement(
                f"@{function.name.value}.register_fake\n"
                f"def _({', '.join(parameters)}):\n    return {outputs}\n",
                syntax.module.config_for_parsing,
            )
            assert isinstance(kernel, cst.FunctionDef)
            blank = [cst.EmptyLine(indent=False)] * 2
            changed = cst.FlattenSentinel([function, kernel.with_changes(leading_lines=blank)])
            yield Candidate(
                "fake-kernel",
                f"Register a fake kernel of `{name}`",
                site.replaced([(function, changed)], imports=syntax.lacking()),
                gives_up="Its sizes are those of the calls that were seen.",
                parts=("export",),
            )


def _defined(syntax: Syntax, decorator: cst.BaseExpression) -> str:
    """The operator that a decorator defines; empty for any other."""
    if syntax.called(decorator) != _DEFINES:
        return ""
    first = cst.ensure_type(decorator, cst.Call).args[:1]
    value = first[0].value if first else None
    text = value.evaluated_value if isinstance(value, cst.SimpleString) else ""
    return text if isinstance(text, str) else ""


def _registered(syntax: Syntax) -> set[str]:
    """Operators that have a fake kernel, by the names or functions that register it."""
    text = syntax.module.code
    found = set(re.findall(r"""register_fake\(\s*["'](\w+::\w+)["']""", text))
    functions = set(re.findall(r"(\w+)\.register_fake\b", text))
    for function in m.findall(syntax.module, m.FunctionDef()):
        assert isinstance(function, cst.FunctionDef)
        if function.name.value in functions:
            found |= {_defined(syntax, one.decorator) for one in function.decorators}
    return found


# -- sizes ----------------------------------------------------------------------------------------


def _outputs(
    syntax: Syntax, calls: Sequence[OperatorCall], parameters: Sequence[str]
) -> Iterator[str]:
    """What a fake kernel returns, by all calls; nothing where that is no function of sizes."""
    first = calls[0]
    alike = all(
        len(one.outputs) == len(first.outputs) and len(one.inputs) == len(first.inputs)
        for one in calls
    )
    if not alike or len(first.inputs) != len(parameters) or any(map(_empty, calls)):
        return
    for strided in (False, True):
        made = [
            _output(syntax, calls, number, parameters, strided=strided)
            for number in range(len(first.outputs))
        ]
        written = [one for one in made if one is not None]
        if len(written) == len(made):
            comma = "," if len(written) == 1 else ""
            yield f"({', '.join(written)}{comma})" if first.several else written[0]


def _empty(call: OperatorCall) -> bool:
    return not any(call.inputs)


def _output(
    syntax: Syntax,
    calls: Sequence[OperatorCall],
    number: int,
    parameters: Sequence[str],
    *,
    strided: bool,
) -> str | None:
    """A tensor like one output; ``strided`` as an input of the same sizes is."""
    outputs = [one.outputs[number] for one in calls]
    given: dict[str, list[TensorForm]] = {}
    for at, name in enumerate(parameters):
        forms = [form for one in calls if (form := one.inputs[at]) is not None]
        if len(forms) == len(calls):
            given[name] = forms
    if not given or len({len(one.sizes) for one in outputs}) != 1:
        return None
    dtypes = [one.dtype for one in outputs]
    like = next((name for name in given if [one.dtype for one in given[name]] == dtypes), "")
    if not like and len(set(dtypes)) != 1:
        return None
    if strided and like and [one.sizes for one in given[like]] == [one.sizes for one in outputs]:
        return f"{syntax.spelled('torch.empty_like')}({like})"
    dtype = "" if like else f", dtype={syntax.spelled(f'torch.{dtypes[0]}')}"
    sizes = [_size([one.sizes[dim] for one in outputs], given) for dim in range(_rank(outputs))]
    if not all(sizes):
        return None
    comma = "," if len(sizes) == 1 else ""
    return f"{like or next(iter(given))}.new_empty(({', '.join(sizes)}{comma}){dtype})"


def _rank(forms: Sequence[TensorForm]) -> int:
    return min(len(one.sizes) for one in forms)


def _size(wanted: Sequence[int], given: Mapping[str, Sequence[TensorForm]]) -> str:
    """A size of an output in all calls, as one of an input or a number; empty where it is none."""
    for name, forms in given.items():
        for axis in range(_rank(forms)):
            if [one.sizes[axis] for one in forms] == wanted:
                return f"{name}.shape[{axis}]"
    return str(wanted[0]) if len(set(wanted)) == 1 else ""
