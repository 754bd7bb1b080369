"""The index against what torch itself says: errors of bindings, stubs, structures, operators.

Errors are the best witnesses, for they come from the signatures that the argument parser really
tries; stubs stand in where errors say nothing, and for defaults.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

from fullgraph_engine.operators.sources import find_sources
from fullgraph_engine.operators.static import build_static_index
from fullgraph_engine.protocol.operators import (
    IndexHeader,
    Name,
    Operator,
    Overload,
    Parameter,
    Signature,
    decode_index,
)

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

PROBE = Path(__file__).parents[1] / "witnesses" / "probe.py"

# -- quirks of torch: each is a disagreement between two of its own statements --------------------

PRINTED_DEFAULTS = {
    # Errors print the C++ of a default as it stands in the signature.
    "{-2,-1}": "(-2, -1)",
    # `atol` in the parser makes 0 of it: without `reduction`, the binding does not reduce.
    "at::Reduction::Mean": "0",
}
SPEECHLESS = {
    "torch._C.TensorBase.record_stream": "`type_name` has no word for a Stream and throws",
}
# A function without any parameter has a binding that never looks at what it is given.
DEAF = {
    "torch._C._VariableFunctions._nnpack_available",
    "torch._C._VariableFunctions._use_cudnn_rnn_flatten_weight",
    "torch._C._VariableFunctions.is_vulkan_available",
}
# The same empty list, which the signature of the parser writes as None.
STUB_DEFAULTS = {"()": "None"}
# Written by hand in gen_pyi.py and _nn.pyi.in, not made from the YAML; errors confirm ours.
STUBS_BY_HAND = {
    "torch._C.TensorBase.mul": "has an out= that the method does not take",
    "torch._C.TensorBase.new_ones": "repeats the signature with positional options",
    "torch._C._nn.col2im": "has defaults for stride and padding, which are required",
}
if markers.torch_version() >= (2, 13):
    STUBS_BY_HAND["torch._C._VariableFunctions.full"] = "has a form with names="


Form = tuple[tuple[str, bool, str], ...]
"""A signature as stubs and bindings can be compared: names, keyword-only or not, defaults."""


@dataclass(frozen=True)
class Index:
    header: IndexHeader
    names: dict[str, Name]
    operators: dict[str, Operator]

    def bindings(self) -> dict[str, Name]:
        """What torchgen generates a binding for, by the path of the binding."""
        return {
            name.binding or path: name
            for path, name in self.names.items()
            if not name.alias and name.signatures and name.signatures[0].operator
        }

    def overloads(self) -> dict[str, Overload]:
        return {
            f"{operator.name}.{overload.name}".rstrip("."): overload
            for operator in self.operators.values()
            for overload in operator.overloads
        }


@pytest.fixture(scope="module")
def index() -> Index:
    header, entries = decode_index(build_static_index(find_sources(None)))
    items = [entry.decode() for entry in entries]
    return Index(
        header,
        {item.path: item for item in items if isinstance(item, Name)},
        {item.name: item for item in items if isinstance(item, Operator)},
    )


@pytest.fixture(scope="module")
def witness(index: Index) -> dict[str, Any]:
    asked = {}
    for path, name in index.bindings().items():
        if path in DEAF:
            continue
        tried = _tried(name)
        asked[path] = [vars(p) for p in tried[0].parameters] if len(tried) == 1 else None
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _tried(name: Name) -> list[Signature]:
    """Errors list no deprecated signatures."""
    return [signature for signature in name.signatures if not signature.deprecated]


def _printed(signature: Signature) -> str:
    parts = []
    starred = False
    for parameter in signature.parameters:
        if parameter.keyword_only and not starred:
            parts.append("*")
            starred = True
        default = f" = {parameter.default}" if parameter.default else ""
        parts.append(f"{parameter.type} {parameter.name}{default}")
    return f"({', '.join(parts)})"


# -- proof 1: signatures --------------------------------------------------------------------------


def test_nothing_is_left_out(index: Index) -> None:
    assert index.header.notes == ()
    assert index.header.names == len(index.names) > 2000
    assert index.header.operators == len(index.operators) > 1500


def test_lists_in_errors_are_ours_in_our_order(index: Index, witness: dict[str, Any]) -> None:
    bindings = index.bindings()
    listed = {path: said["listed"] for path, said in witness["said"].items() if "listed" in said}
    quirks: Counter[str] = Counter()
    wrong = {}
    for path, theirs in listed.items():
        shown = []
        for line in theirs:
            for cpp, python in PRINTED_DEFAULTS.items():
                quirks[cpp] += cpp in line
                line = line.replace(cpp, python)
            shown.append(line)
        ours = [_printed(signature) for signature in _tried(bindings[path])]
        if witness["said"][path]["cut"]:
            ours = ours[: len(shown)]
        if ours != shown:
            wrong[path] = (ours, shown)
    print(f"\n{len(listed)} bindings list their signatures in errors; quirks: {dict(quirks)}")
    assert wrong == {}
    assert len(listed) >= 330
    assert all(quirks[cpp] for cpp in PRINTED_DEFAULTS)


def test_errors_name_our_parameters(index: Index, witness: dict[str, Any]) -> None:
    """A binding with one signature: each parameter by name and type, the counts, what is needed."""
    found = {path: said["faults"] for path, said in witness["said"].items() if "faults" in said}
    wrong = {path: faults for path, faults in found.items() if faults}
    print(f"\n{len(found) - len(wrong)} bindings confirm each parameter; quirks: {[*wrong]}")
    assert set(wrong) == set(SPEECHLESS), wrong
    assert len(found) > 1200


def test_lists_of_ints_may_be_separate_arguments(index: Index, witness: dict[str, Any]) -> None:
    ours = {
        path
        for path, name in index.bindings().items()
        if any(p.variadic for signature in name.signatures for p in signature.parameters)
    }
    assert ours == {path for path, said in witness["said"].items() if said.get("variadic")}
    print(f"\n{len(ours)} bindings take the items of a list as arguments")
    assert len(ours) > 20


def test_bindings_that_are_not_asked_are_few(index: Index, witness: dict[str, Any]) -> None:
    silent = {path: said for path, said in witness["said"].items() if not said.keys() & _SPOKEN}
    for path, said in silent.items():
        # Binary operators of Python turn the error into NotImplemented.
        assert re.fullmatch(r"__\w+__", path.rpartition(".")[2]), path
        assert said["silent"] == "NotImplemented"
    for path in DEAF:
        assert [s.parameters for s in index.bindings()[path].signatures] == [()]
    print(f"\n{len(silent)} bindings say nothing, {len(DEAF)} take no arguments")


_SPOKEN = {"listed", "faults"}


def test_stubs_agree_where_errors_list_nothing(index: Index, witness: dict[str, Any]) -> None:
    assert witness["reduces"] is False  # what PRINTED_DEFAULTS and _form say of `reduction`
    stubs = _stubs()
    compared: Counter[str] = Counter()
    wrong = {}
    for path, name in index.bindings().items():
        holder, _, leaf = path.rpartition(".")
        theirs = stubs.get(holder, {}).get(leaf)
        if theirs is None or "listed" in witness["said"].get(path, {}):
            continue
        ours = {form for signature in name.signatures for form in _forms(signature)}
        if holder == "torch._C._nn":
            # Mostly by hand: many stubs leave out out= and have `...` for defaults.
            agrees = _same_values(ours, theirs)
        elif "silent" in witness["said"].get(path, {}):
            agrees = ours <= theirs  # Stubs of Python's operators have further forms by hand.
        else:
            agrees = ours == theirs
        compared[holder] += agrees
        if not agrees:
            wrong[path] = sorted(ours ^ theirs)
    print(f"\n{sum(compared.values())} bindings agree with their stubs: {dict(compared)}")
    assert set(wrong) == set(STUBS_BY_HAND), wrong
    assert sum(compared.values()) > 1100


def _same_values(ours: set[Form], theirs: set[Form]) -> bool:
    """Where both have a default for a parameter, it is the same one."""
    known = {name: ast.literal_eval(value) for form in ours for name, _, value in form if value}
    return all(
        name in known and known[name] == ast.literal_eval(value)
        for form in theirs
        for name, _, value in form
        if value and value != "Ellipsis"
    )


def _forms(signature: Signature) -> list[Form]:
    """A signature as stubs have it: deprecated ones are not merged with their out-variant."""
    parameters = list(signature.parameters)
    if signature.deprecated:
        parameters = [Parameter("self", p.type) if p.name == "input" else p for p in parameters]
        if parameters[-1].name == "out":
            out = Parameter("out", parameters[-1].type, keyword_only=True)
            return [_form(parameters[:-1]), _form([*parameters[:-1], out])]
    return [_form(parameters)]


def _form(parameters: list[Parameter]) -> Form:
    return tuple(
        (
            p.name.rstrip("_"),
            p.keyword_only,
            # Stubs have the 1 of `Mean` that the YAML means.
            "1" if p.name == "reduction" and p.default == "0" else _value(p.default),
        )
        for p in parameters
    )


def _value(default: str) -> str:
    default = STUB_DEFAULTS.get(default, default)
    try:
        return repr(ast.literal_eval(default)) if default else ""
    except ValueError:
        return default.removeprefix("torch.")


def _stubs() -> dict[str, dict[str, set[Form]]]:
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations))) / "_C"

    def functions(body: list[ast.stmt], *, method: bool) -> dict[str, set[Form]]:
        found: dict[str, set[Form]] = defaultdict(set)
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.args.vararg is None:
                found[node.name].add(_stub_form(node.args, method=method))
        return found

    def body(file: str) -> list[ast.stmt]:
        return ast.parse((folder / file).read_text()).body

    tensor = next(
        node
        for node in body("__init__.pyi")
        if isinstance(node, ast.ClassDef) and node.name == "TensorBase"
    )
    return {
        "torch._C._VariableFunctions": functions(body("_VariableFunctions.pyi"), method=False),
        "torch._C._nn": functions(body("_nn.pyi"), method=False),
        "torch._C.TensorBase": functions(tensor.body, method=True),
    }


def _stub_form(arguments: ast.arguments, *, method: bool) -> Form:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = [*zip(positional, [*defaults, *arguments.defaults], strict=True)][method:]
    return tuple(
        (argument.arg.rstrip("_"), keyword_only, _value(ast.unparse(default) if default else ""))
        for some, keyword_only in (
            (pairs, False),
            (zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True), True),
        )
        for argument, default in some
    )


# -- proof 2: structures, deprecated signatures, operators ----------------------------------------


def test_structures_have_our_fields(index: Index, witness: dict[str, Any]) -> None:
    ours: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name in index.names.values():
        for signature in name.signatures:
            if signature.structure:
                fields = tuple(field.name for field in signature.returns)
                ours[signature.structure.rpartition(".")[2]].add(fields)
                if signature.out:
                    # The out-variant has a structure of its own, of the same fields.
                    ours[signature.structure.rpartition(".")[2] + "_out"].add(fields)
    theirs = witness["structures"]
    assert {name: {tuple(fields)} for name, fields in theirs.items()} == ours
    print(f"\n{len(theirs)} structures of torch.return_types have our fields")
    assert len(theirs) > 40


def test_each_deprecated_signature_is_there(index: Index) -> None:
    yaml = pytest.importorskip("yaml")
    entries = yaml.safe_load((_packaged() / "autograd" / "deprecated.yaml").read_text())
    assert len(entries) > 30
    for entry in entries:
        name, _, rest = entry["name"].split(" -> ")[0].partition("(")
        arguments = [part.split("=")[0].split()[-1] for part in rest[:-1].split(", ")]
        given = [argument for argument in arguments if argument not in ("*", "out")]
        for path, receiver in ((f"torch.{name}", "input"), (f"torch.Tensor.{name}", None)):
            found = index.names.get(path)
            if found is None or (receiver is None and "out" in arguments):
                continue
            expected = [receiver if a == "self" else a for a in given]
            instead = {
                tuple(p.name for p in s.parameters if p.name != "out"): s.instead
                for s in found.signatures
                if s.deprecated
            }
            text = instead[tuple(a for a in expected if a)]
            called = ast.parse(text, mode="eval").body
            assert isinstance(called, ast.Call)
            _accepts(found, called)


def _accepts(name: Name, call: ast.Call) -> None:
    """The call that is recommended fits a signature that is not deprecated."""
    keywords = {keyword.arg for keyword in call.keywords}
    assert any(
        keywords <= {p.name for p in signature.parameters}
        and len(call.args)
        == sum(not p.default and not p.keyword_only for p in signature.parameters)
        for signature in _tried(name)
    ), ast.unparse(call)


def test_all_native_operators_are_there(index: Index, witness: dict[str, Any]) -> None:
    ours, theirs = set(index.overloads()), set(witness["autograd"])
    assert ours - theirs == set()
    late = theirs - ours
    print(f"\n{len(ours)} overloads; {len(late)} more are registered by other code: {sorted(late)}")
    # No entry of native_functions.yaml declares them: TorchScript's own, and what autograd's
    # wrappers use for `x.data = y` since torch 2.15.
    undeclared = r"aten::(quantized_(gru|lstm)|get_gradients|shallow_copy_data_)"
    assert all(re.match(undeclared, name) for name in late)


def test_derivatives_are_those_of_torchgen(index: Index, witness: dict[str, Any]) -> None:
    load = pytest.importorskip("torchgen.packaged.autograd.load_derivatives")
    generator = pytest.importorskip("torchgen.gen")
    match = pytest.importorskip("torchgen.api.autograd").match_differentiability_info
    packaged = _packaged()
    native = str(packaged / "ATen" / "native" / "native_functions.yaml")
    tags = str(packaged / "ATen" / "native" / "tags.yaml")
    derivatives = str(packaged / "autograd" / "derivatives.yaml")
    infos, _ = load.load_derivatives(derivatives, native, tags)
    matched = match(generator.parse_native_yaml(native, tags).native_functions, infos)
    ours = index.overloads()
    verdicts: Counter[str] = Counter()
    for each in matched:
        function = each.func
        name = f"{function.namespace}::{function.func.name}"
        info = (each.info or {}).get("Default")
        implemented = [
            (", ".join(derivative.var_names), derivative.original_formula)
            for derivative in (info.derivatives if info else ())
            if not derivative.original_formula.startswith("not_implemented(")
        ]
        outputs = info.output_differentiability if info else None
        has_one = bool(implemented) and not (outputs and not any(outputs))
        expected = has_one and function.func.kind().name != "out"
        assert (ours[name].differentiable == "formula") is expected, name
        if expected and not function.func.name.name.base.startswith("_foreach_"):
            formulas = {
                (", ".join(part.strip() for part in d.inputs.split(",")), d.formula)
                for d in ours[name].derivatives
            }
            assert set(implemented) <= formulas, name
        verdicts[ours[name].differentiable] += 1
    assert {"formula", "composite"} <= verdicts.keys()
    print(f"\n{sum(verdicts.values())} overloads: {dict(verdicts)}")
    composite = "CompositeImplicitAutograd"
    for name, overload in ours.items():
        registered = witness["autograd"][name]
        if overload.differentiable == "formula":
            assert registered, name
        elif overload.differentiable == "composite" and overload.kernels == (composite,):
            assert not registered, name


def _packaged() -> Path:
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("torchgen is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "packaged"
