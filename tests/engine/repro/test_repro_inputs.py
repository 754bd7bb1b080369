"""What a script loads is equal in every property to what a run had."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fullgraph_engine.protocol.repro import DATA
from fullgraph_engine.repro.emit.program import ProgramDraft
from fullgraph_engine.repro.inputs import (
    TensorStore,
    data_note,
    loader_imports,
    loader_text,
    needed_files,
)
from fullgraph_engine.repro.inputs.inlining import inline_small_tensors
from fullgraph_engine.repro.verify.check import ScriptCheck, assemble_check

DTYPES = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str)
_QUANTISED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
PLAIN = [one for one in DTYPES if one not in _QUANTISED]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def program(folder: Path, *values: Any, most: int = 1 << 20) -> str:
    draft = ProgramDraft(TensorStore(folder / DATA, most))
    return draft.text([f"result = [{', '.join(draft.expressions(values))}]"])


def executed(text: str, folder: Path) -> list[Any]:
    """The values of a program that lies in a folder."""
    namespace: dict[str, Any] = {"__file__": str(folder / "script.py")}
    exec("\n".join([*loader_imports(text), "import torch", loader_text(text), text]), namespace)
    result: list[Any] = namespace["result"]
    return result


def there_and_back(folder: Path, *values: Any) -> list[Any]:
    return executed(program(folder, *values), folder)


def files(folder: Path) -> list[Path]:
    return sorted((folder / DATA).iterdir()) if (folder / DATA).exists() else []


def elements(tensor: torch.Tensor) -> list[Any]:
    """The bits of every element; not a number is the same whatever its bits."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    if plain.is_floating_point() and plain.dtype != torch.float4_e2m1fn_x2:
        plain = plain.to(torch.float64)
        return plain.where(plain.isfinite(), plain.nan_to_num(0.5)).view(torch.int64).tolist()
    return plain.view(_BITS[plain.dtype.itemsize]).tolist()


def assert_same(one: torch.Tensor, other: torch.Tensor) -> None:
    assert type(one) is type(other)
    assert one.shape == other.shape
    assert one.stride() == other.stride()
    assert one.storage_offset() == other.storage_offset()
    assert one.dtype == other.dtype
    assert one.device == other.device
    assert one.requires_grad == other.requires_grad
    assert one.is_leaf == other.is_leaf
    assert one.is_conj() == other.is_conj()
    assert one.is_neg() == other.is_neg()
    assert elements(one) == elements(other)


def random_tensor(chance: random.Random, dtype: torch.dtype) -> torch.Tensor:
    """Any strides that torch has: permuted, with gaps, overlapping, zero; empty and zero-dim."""
    rank = chance.choice([0, 1, 1, 2, 3, 4])
    size = [chance.choice([0, 1, 2, 3, 5]) for _ in range(rank)]
    stride = [chance.choice([0, 1, 1, 2, 3, 4, 7]) for _ in range(rank)]
    offset = chance.choice([0, 0, 1, 5])
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True) if n)
    count = offset + reach + 1 + chance.choice([0, 4])
    data = bytes(chance.randrange(256) for _ in range(count * dtype.itemsize))
    if dtype == torch.bool:
        data = bytes(one % 2 for one in data)
    storage = torch.UntypedStorage(list(data))
    tensor = torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)
    if dtype.is_floating_point or dtype.is_complex:
        grad = chance.choice(["none", "leaf", "inner"]) if dtype.itemsize > 1 else "none"
        if grad != "none":
            tensor.requires_grad_()
        if grad == "inner":
            tensor = tensor.view_as(tensor)
    return tensor


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_read_back_equal(tmp_path: Path, dtype: torch.dtype) -> None:
    chance = random.Random(str(dtype))
    values = [random_tensor(chance, dtype) for _ in range(25)]
    for one, other in zip(values, there_and_back(tmp_path, *values), strict=True):
        assert_same(one, other)


def test_shared_storages_are_shared_again(tmp_path: Path) -> None:
    base = torch.randn(4, 6)
    row, column, same = base[1], base[:, 2], base
    read = there_and_back(tmp_path, base, row, column, same, base.view(torch.int32))
    for one, other in zip([base, row, column], read, strict=False):
        assert_same(one, other)
    assert read[3] is read[0]
    read[0].fill_(7)
    assert read[1].eq(7).all() and read[2].eq(7).all()
    assert len({one.untyped_storage().data_ptr() for one in read}) == 1


def test_equal_contents_are_one_file_and_two_memories(tmp_path: Path) -> None:
    values = torch.randperm(40), torch.randperm(40)
    values[1].copy_(values[0])
    read = there_and_back(tmp_path, *values)
    assert len(files(tmp_path)) == 1
    read[0].zero_()
    assert read[1].equal(values[1])
    (again,) = there_and_back(tmp_path, values[0])
    assert again.equal(values[0])


def test_what_changes_between_two_programs_is_saved_twice(tmp_path: Path) -> None:
    store, value = TensorStore(tmp_path / DATA), torch.randn(40)
    first = store.save(value)
    value[0] = 3
    assert first != store.save(value)


def test_conjugate_and_negative_views(tmp_path: Path) -> None:
    value = torch.randn(30, dtype=torch.complex64)
    for one in (value.conj(), value.conj().imag):
        (other,) = there_and_back(tmp_path, one)
        assert_same(one, other)


def test_parameters(tmp_path: Path) -> None:
    values = [torch.nn.Parameter(torch.randn(20)), torch.nn.Parameter(torch.ones(1), False)]
    for one, other in zip(values, there_and_back(tmp_path, *values), strict=True):
        assert_same(one, other)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(40))
        self.register_buffer("order", torch.randperm(100))
        norm = torch.nn.BatchNorm1d(8)
        norm.get_buffer("running_mean").uniform_()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) * self.table[0] * self.get_buffer("order")[1]


def _tied() -> torch.nn.Module:
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
    net[1].weight = net[0].weight
    return net


@pytest.mark.parametrize(
    "make",
    [
        Net,
        lambda: Net().half().eval(),
        _tied,
        lambda: torch.nn.LSTM(4, 4),
        lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32), 2),
    ],
    ids=["own", "half", "tied", "recurrent", "nested"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_modules_have_their_weights(tmp_path: Path, make: Any) -> None:
    module = make()
    (other,) = there_and_back(tmp_path, module)
    states = module.state_dict(), other.state_dict()
    assert list(states[0]) == list(states[1])
    for name, one in states[0].items():
        assert_same(one, states[1][name])
    assert len(list(module.parameters())) == len(list(other.parameters()))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantized(tmp_path: Path) -> None:
    plain = torch.randn(9, 4)
    scales, zeros = torch.rand(9), torch.arange(9)
    values = [
        torch.quantize_per_tensor(plain, 0.1, 3, torch.quint8),
        torch.quantize_per_tensor(plain, 0.1, 0, torch.qint32),
        torch.quantize_per_channel(plain, scales, zeros, 0, torch.qint8),
    ]
    for one, other in zip(values, there_and_back(tmp_path, *values), strict=True):
        assert one.dtype == other.dtype and one.qscheme() == other.qscheme()
        assert one.int_repr().equal(other.int_repr())
        assert one.dequantize().equal(other.dequantize())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sparse(tmp_path: Path) -> None:
    plain = torch.randn(6, 4) * (torch.rand(6, 4) > 0.3)
    kinds = [plain.to_sparse(), plain.to_sparse_csr(), plain.to_sparse_csc()]
    for one in (*kinds, plain.to_sparse_bsr((2, 2)), plain.to_sparse_bsc((2, 2))):
        one.requires_grad_()
        (other,) = there_and_back(tmp_path, one)
        assert other.layout == one.layout and other.requires_grad and other.is_leaf
        assert other.to_dense().equal(plain)


def test_small_and_regular_contents_are_written_into_the_program(tmp_path: Path) -> None:
    text = program(tmp_path, torch.tensor([0.1, float("nan")]), torch.zeros(99), torch.arange(500))
    assert '[0.1, float("nan")]' in text
    assert not needed_files(text) and not loader_text(text) and not files(tmp_path)


def test_symbolic_sizes(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv())
    context: Any = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    fake = mode.from_tensor(torch.randn(6, 3), symbolic_context=context)
    size, tensor = there_and_back(tmp_path, fake.size(0), fake)
    assert size == 6 and tensor.shape == (6, 3)


# -- what is missing --------------------------------------------------------------------------


def test_without_its_folder_a_program_has_random_data_and_says_so(tmp_path: Path) -> None:
    values = [torch.randn(50, dtype=torch.bfloat16), torch.randint(3, 9, (40,))]
    text = program(tmp_path, *values)
    with pytest.warns(UserWarning, match="other data is used") as caught:
        floats, ints = executed(text, tmp_path / "elsewhere")
    assert len({str(one.message) for one in caught}) == 1
    assert floats.isfinite().all() and floats.dtype == torch.bfloat16
    assert not floats.equal(values[0])
    assert int(ints.min()) >= 3 and int(ints.max()) <= 8


@pytest.mark.parametrize("content", [b"", b"cut", b"\xff" * 400], ids=["empty", "cut", "changed"])
def test_damaged_files_are_not_taken(tmp_path: Path, content: bytes) -> None:
    text = program(tmp_path, torch.randn(100))
    (path,) = files(tmp_path)
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        (read,) = executed(text, tmp_path)
    assert read.isfinite().all()


def test_fewer_elements_than_there_are_can_be_asked_for(tmp_path: Path) -> None:
    value = torch.randn(100)
    text = program(tmp_path, value).replace("randn(100)", "randn(7)")
    assert executed(text, tmp_path)[0].equal(value[:7])


def test_what_is_too_much_is_left_out(tmp_path: Path) -> None:
    draft = ProgramDraft(TensorStore(tmp_path / DATA, 1000))
    texts = draft.expressions([torch.randn(200), torch.randn(400), torch.randn(40)])
    assert [text.startswith("stored(") for text in texts] == [True, False, True]
    assert any("other tensors get random values" in note for note in draft.notes)


def test_half_a_file_never_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert not needed_files(program(tmp_path, torch.randn(30)))
    assert not files(tmp_path)


# -- what has become small --------------------------------------------------------------------


def test_what_is_small_is_written_into_the_program(tmp_path: Path) -> None:
    store = TensorStore(tmp_path / DATA)
    floats, ints = torch.tensor([0.1, 3e5, *range(40)]), torch.randint(90, (40,))
    names = store.save(floats), store.save(ints)
    text = (
        f'x = stored("{names[0]}", torch.randn(2, requires_grad=True))\n'
        f'y = [stored("{names[1]}", torch.randint(90, (40,)))]\n'
        f'z = stored("{names[1]}", torch.ones(1, 2, dtype=torch.int64))\n'
        f'stored("{names[0]}", x)\n'
    )
    first, second, third, fourth = inline_small_tensors(text, tmp_path).splitlines()
    assert first == "x = torch.tensor([0.1, 300000.0], requires_grad=True)"
    assert second == text.splitlines()[1] and fourth == text.splitlines()[3]
    assert third == f"z = torch.tensor({[ints[:2].tolist()]})"


def test_what_cannot_be_read_stays(tmp_path: Path) -> None:
    for like in ("torch.randn(n)", "torch.randn(-1)", "torch.zeros(4)", "make()"):
        text = f'x = stored("0123456789abcdef", {like})\n'
        assert inline_small_tensors(text, tmp_path) == text


# -- the script -------------------------------------------------------------------------------


def test_a_script_stands_alone(tmp_path: Path) -> None:
    """In a Python that has torch and nothing of this project, from another folder."""
    value = torch.randperm(60).view(20, 3).t()
    draft = ProgramDraft(TensorStore(tmp_path / DATA))
    text = draft.text([f"print({draft.expression(value)}.tolist())"])
    script = tmp_path / "script.py"
    script.write_text(assemble_check(text, ScriptCheck("nothing", "[]")))
    ended = subprocess.run(
        [sys.executable, "-I", str(script)], capture_output=True, text=True, cwd="/", check=True
    )
    assert ended.stdout.splitlines()[0] == str(value.tolist())
    assert ended.stderr == ""


def test_what_is_needed_is_said(tmp_path: Path) -> None:
    text = program(tmp_path, torch.randn(1024))
    (name,) = needed_files(text)
    assert data_note(text, tmp_path) == (
        f"The script needs data/{name}, next to the script (4.0 KiB).",
    )
    more = program(tmp_path, torch.randn(1 << 18), torch.randn(1 << 17), most=1 << 24)
    assert (
        "and 1 more file of that folder, next to the script (1.5 MiB)"
        in data_note(more, tmp_path)[0]
    )
    assert data_note("import torch", tmp_path) == ()


def test_a_function_of_the_users_is_not_taken_for_the_loader() -> None:
    assert needed_files('stored("weights.pt", x)\nstored(1, x)\nstored("0123456789abcdef")') == ()


def test_progress_while_many_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    there_and_back(tmp_path, *(torch.randn(30) for _ in range(20)))
    assert screen.getvalue().endswith("\rloading 20 of 20\n")
    assert screen.getvalue().count("\r") == 20


def test_few_are_loaded_silently(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there_and_back(tmp_path, torch.randn(30))
    assert capsys.readouterr().err == ""
