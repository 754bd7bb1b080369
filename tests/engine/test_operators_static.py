"""The part of the operator index that is made without importing torch."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import markers

from fullgraph_engine.operators.phrases import default_as_python, parser_type
from fullgraph_engine.operators.signatures_from_errors import correct_signatures
from fullgraph_engine.protocol.operators import (
    Field,
    IndexHeader,
    Name,
    Operator,
    Parameter,
    Signature,
    decode_index,
)

OPERATORS = Path(__file__).parents[2] / "engine" / "fullgraph_engine" / "operators"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torchgen") is None, reason="torch is not installed"
)

Items = dict[str, Any]


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _build(out: Path, *options: str, python: tuple[str, ...] = ()) -> tuple[IndexHeader, Items]:
    command = [sys.executable, *python, str(OPERATORS / "build.py"), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
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
    files = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.index"
        code = (
            "import runpy, sys, os\n"
            f"sys.argv = ['build.py', '--out', {str(out)!r}]\n"
            "end = os._exit\n"
            "os._exit = lambda status: end(status or 7 * ('torch' in sys.modules))\n"
            f"runpy.run_path({str(OPERATORS / 'build.py')!r}, run_name='__main__')\n"
        )
        environment = {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60)
        assert done.returncode == 0
        files.append(out.read_bytes())
    assert files[0] == files[1]


@needs_torch
def test_yaml_may_be_brought_along(tmp_path: Path) -> None:
    yaml = _folder("yaml")
    # Python alone, for where the compiled part was made for another interpreter.
    brought = tmp_path / "brought" / "yaml"
    shutil.copytree(yaml, brought, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    (tmp_path / "brought" / "beside.py").write_text("raise SystemExit(3)\n")
    without = _without_yaml(tmp_path)
    plain, _ = _build(tmp_path / "a.index")
    pure, _ = _build(tmp_path / "b.index", "--yaml", str(brought), python=without)
    assert plain == pure
    header, items = _build(tmp_path / "c.index", python=without)
    assert [note for note in header.notes if "PyYAML" in note]
    # The stubs still say how bindings are called.
    assert items["torch.max"].signatures
    assert items["torch.Tensor.view"].signatures


def _without_yaml(tmp_path: Path) -> tuple[str, ...]:
    """A way to start an interpreter that does not find its own PyYAML."""
    starter = tmp_path / "start.py"
    starter.write_text(
        "import sys, runpy\n"
        "from importlib.machinery import PathFinder\n"
        "class Without(PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        if name == 'yaml':\n"
        "            return None\n"
        "        return PathFinder.find_spec(name, path, target)\n"
        "at = sys.meta_path.index(PathFinder)\n"
        "sys.meta_path[at] = Without\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.path[0] = ''\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return (str(starter),)


@needs_torch
def test_yaml_of_a_newer_torch_costs_only_what_is_new(tmp_path: Path) -> None:
    packaged = tmp_path / "packaged"
    for part in ("ATen/native", "autograd"):
        shutil.copytree(
            _folder("torchgen") / "packaged" / part,
            packaged / part,
            ignore=shutil.ignore_patterns("*.py", "templates", "__pycache__"),
        )
    native = packaged / "ATen" / "native" / "native_functions.yaml"
    native.write_text(
        native.read_text()
        + "\n- func: newer(Tensor self) -> Tensor\n  novelty: true\n  tags: [unheard_of]\n"
        "  dispatch:\n    CPU: newer_cpu\n    QuantumTunnel: newer_quantum\n"
        "\n- func: broken(Tensor self -> Tensor\n"
        "\n- func: of_a_new_type(Wavefunction self) -> Tensor\n"
        "\n- just a string\n"
    )
    (packaged / "ATen" / "native" / "tags.yaml").unlink()
    derivatives = packaged / "autograd" / "derivatives.yaml"
    derivatives.write_text(derivatives.read_text() + "\n- name: newer(Tensor self) -> Tensor\n")
    header, items = _build(tmp_path / "x.index", "--packaged", str(packaged))
    notes = " ".join(header.notes)
    assert "2 entries that torchgen refuses" in notes
    assert "left out for 1 operator." in notes
    assert "Tags" in notes
    newer = items["aten::newer"].overloads[0]
    assert newer.kernels == ("CPU",)
    assert "unheard_of" in newer.tags
    assert items["torch.newer"].signatures[0].operator == "aten::newer"
    assert items["torch.max"].signatures[2].operator == "aten::max.dim"
    assert sum(isinstance(item, Operator) for item in items.values()) > 1500


@needs_torch
def test_yaml_that_does_not_parse_is_read_in_pieces(tmp_path: Path) -> None:
    packaged = tmp_path / "packaged"
    shutil.copytree(
        _folder("torchgen") / "packaged",
        packaged,
        ignore=shutil.ignore_patterns("*.py", "templates", "__pycache__"),
    )
    native = packaged / "ATen" / "native" / "native_functions.yaml"
    native.write_text(native.read_text() + "\n- func: cut_off(Tensor self) -> Tensor\n  tags: [a\n")
    (packaged / "autograd" / "deprecated.yaml").write_text("- name: max(\n")
    header, items = _build(tmp_path / "x.index", "--packaged", str(packaged))
    assert items["torch.max"].signatures[2].operator == "aten::max.dim"
    assert [note for note in header.notes if "Deprecated" in note]
    assert not any(s.deprecated for s in items["torch.addmm"].signatures)


@needs_torch
def test_a_torch_without_the_yaml_still_has_its_stubs(tmp_path: Path) -> None:
    header, items = _build(tmp_path / "x.index", "--packaged", str(tmp_path / "nothing"))
    assert [note for note in header.notes if "YAML" in note]
    assert header.operators == 0
    assert len(items["torch.max"].signatures) >= 3
    assert items["torch.nn.functional.relu"].python


def test_what_cannot_be_done_is_said_in_one_sentence(tmp_path: Path) -> None:
    for out in (tmp_path / "no" / "such" / "folder" / "x.index", tmp_path):
        command = [sys.executable, str(OPERATORS / "build.py"), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "operator index" in done.stderr
    assert list(tmp_path.iterdir()) == []
    isolated = [sys.executable, "-S", "-I", str(OPERATORS / "build.py"), "--out", "x"]
    done = subprocess.run(isolated, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no torch" in done.stderr
