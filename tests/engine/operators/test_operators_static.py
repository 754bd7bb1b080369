"""The part of the operator index that is made without importing torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

from fullgraph_engine.operators.phrases import default_as_python, parser_type
from fullgraph_engine.operators.signatures_from_errors import correct_signatures
from fullgraph_engine.protocol.operators import (
    Field,
    IndexHeader,
    Name,
    Parameter,
    Signature,
    decode_index,
)

BUILD = """
import sys
from pathlib import Path
from fullgraph_engine.operators.cache import write_atomically
from fullgraph_engine.operators.sources import find_sources
from fullgraph_engine.operators.static import build_static_index
out, yaml = sys.argv[1:]
write_atomically(Path(out), build_static_index(find_sources(Path(yaml) if yaml else None)))
assert "torch" not in sys.modules
"""
WITHOUT_YAML = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "yaml" else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
"""Code that hides the PyYAML of an interpreter."""
ENGINE = Path(__file__).parents[3] / "engine"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torchgen") is None, reason="torch is not installed"
)

Items = dict[str, Any]


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _build(
    out: Path, *, yaml: str = "", before: str = "", seed: str = "0"
) -> tuple[IndexHeader, Items]:
    """Build the index in another process, which runs the code ``before`` first."""
    command = [sys.executable, "-c", before + BUILD, str(out), yaml]
    environment = {**os.environ, "PYTHONPATH": str(ENGINE), "PYTHONHASHSEED": seed}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    header, entries = decode_index(out.read_bytes())
    return header, {entry.key: entry.decode() for entry in entries}


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("Tensor?", ("Tensor", 0, True)),
        ("SymIntArrayRef[2]", ("tuple of ints", 2, False)),
        ("IntArrayRef[1]?", ("tuple of ints", 1, True)),
        ("TensorList[3]", ("tuple of Tensors", 0, False)),
        ("c10::List<::std::optional<Tensor>>", ("tuple of Tensors", 0, False)),
        ("::std::array<bool,3>", ("tuple of bools", 0, False)),
        ("Scalar", ("Number", 0, False)),
        ("Novelty", ("Novelty", 0, False)),
    ],
)
def test_types_are_in_the_words_of_errors(written: str, words: tuple[str, int, bool]) -> None:
    assert parser_type(written) == words


@pytest.mark.parametrize(
    ("written", "words"),
    [("{0,1}", "(0, 1)"), ("{2}", "(2,)"), ("{}", "None"), ('"valid"', '"valid"'), ("1", "1")],
)
def test_defaults_are_python(written: str, words: str) -> None:
    assert default_as_python(written) == words


def test_a_binding_that_lists_its_signatures_is_believed_more_than_its_stub() -> None:
    def binding(*arguments: object, **keywords: object) -> None:
        raise TypeError(
            "to() received an invalid combination of arguments - got (x), but expected one of:\n"
            " * (torch.device device = None, *, bool copy = False)\n"
            " * (tuple of ints size)\n"
        )

    stub = Name(
        "torch.Tensor.to",
        "method",
        (Signature((Parameter("other", "Tensor"),), (Field("Tensor"),)),),
    )
    device, size = correct_signatures(stub, binding).signatures
    assert device.parameters == (
        Parameter("device", "torch.device", "None", optional=True),
        Parameter("copy", "bool", "False", keyword_only=True),
    )
    assert size.parameters == (Parameter("size", "tuple of ints", variadic=True),)
    assert device.returns == size.returns == (Field("Tensor"),)
    assert correct_signatures(stub, lambda *_, **__: None) == stub


# -- the whole file -------------------------------------------------------------------------------


@needs_torch
def test_what_people_ask_for(tmp_path: Path) -> None:
    header, items = _build(tmp_path / "x.index")
    assert (header.complete, header.notes) == (False, ())
    assert header.torch.startswith(_version())
    tops = items["torch.max"].signatures
    named = ["aten::max.names_dim"] if markers.torch_version() < (2, 13) else []
    assert [s.operator for s in tops] == ["aten::max", "aten::max.other", "aten::max.dim", *named]
    assert tops[2].out == "aten::max.dim_max"
    assert tops[2].structure == "torch.return_types.max"
    assert [field.name for field in tops[2].returns] == ["values", "indices"]
    assert items["torch.linalg.norm"].binding == "torch._C._linalg.linalg_norm"
    assert items["torch.nn.functional.conv2d"].alias == "torch.conv2d"
    assert items["torch.nn.functional.gelu"].binding == "torch._C._nn.gelu"
    assert items["torch.nn.functional.relu"].python == "(input, inplace=False)"
    # A method of the class in Python hides the binding of that name.
    assert items["torch.Tensor.norm"].python.startswith("(p=")
    assert items["torch._C.TensorBase.norm"].signatures
    view = items["torch.Tensor.view"].signatures[1].parameters
    assert view == (Parameter("size", "tuple of ints", variadic=True),)
    last = items["torch.addmm"].signatures[-1]
    assert last.deprecated
    assert last.instead == "torch.addmm(input, mat1, mat2, beta=beta)"
    assert items["torch.Tensor.shape"].kind == "property"
    overloads = {overload.name: overload for overload in items["aten::mul"].overloads}
    assert overloads["Tensor"].differentiable == "formula"
    assert "pointwise" in overloads["Tensor"].tags
    assert "CPU" in overloads["Tensor"].kernels
    assert overloads["out"].differentiable == "no"
    assert items["aten::mul"].names == ("torch.Tensor.mul", "torch.mul")
    assert "torch.Tensor.contiguous" in items["aten::contiguous"].names
    origins = {overload.name: overload.origin for overload in items["aten::isinf"].overloads}
    assert origins == {"": "native", "out": "generated"}


def _version() -> str:
    namespace: dict[str, Any] = {}
    exec((_folder("torch") / "version.py").read_text(), namespace)
    return str(namespace["__version__"])


@needs_torch
def test_torch_is_not_imported_and_the_file_is_always_the_same(tmp_path: Path) -> None:
    files = [tmp_path / "1.index", tmp_path / "2.index"]
    for file in files:
        _build(file, seed=file.stem)
    assert files[0].read_bytes() == files[1].read_bytes()


@needs_torch
def test_yaml_may_be_brought_along(tmp_path: Path) -> None:
    yaml = _folder("yaml")
    # Python alone, for where the compiled part was made for another interpreter.
    brought = tmp_path / "brought" / "yaml"
    shutil.copytree(yaml, brought, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    (tmp_path / "brought" / "beside.py").write_text("raise SystemExit(3)\n")
    plain, _ = _build(tmp_path / "a.index")
    pure, _ = _build(tmp_path / "b.index", yaml=str(brought), before=WITHOUT_YAML)
    assert plain == pure
    header, items = _build(tmp_path / "c.index", before=WITHOUT_YAML)
    assert [note for note in header.notes if "PyYAML" in note]
    # The stubs still say how bindings are called.
    assert items["torch.max"].signatures
    assert items["torch.Tensor.view"].signatures
