"""What is written is read back equal in every property."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fullgraph_engine.repro import inputs as package
from fullgraph_engine.repro.inputs import InputReader, InputWriter, arguments, reader_source
from fullgraph_engine.repro.writing.unwritable import Unwritable

DTYPES = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str)
_QUANTISED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
PLAIN = [one for one in DTYPES if one not in _QUANTISED]


def there_and_back(folder: Path | None, *values: Any) -> list[Any]:
    writer = InputWriter(folder)
    text = writer.text(values)
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    loaded: list[Any] = namespace["load_inputs"](InputReader(folder, writer.storages))
    return loaded


def bits(tensor: torch.Tensor) -> bytes:
    """Every byte of the storage."""
    return bytes(tensor.untyped_storage().tolist())


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
    assert bits(one.detach()) == bits(other.detach())


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
    assert read[3] is read[0]
    read[0].fill_(7)
    assert read[1].eq(7).all() and read[2].eq(7).all()
    assert len({one.untyped_storage().data_ptr() for one in read}) == 1


def test_equal_storages_are_one_file_and_two_memories(tmp_path: Path) -> None:
    read = there_and_back(tmp_path, torch.arange(9), torch.arange(9))
    assert len(list(tmp_path.iterdir())) == 1
    read[0].zero_()
    assert read[1].tolist() == list(range(9))
    again = there_and_back(tmp_path, torch.arange(9))
    assert again[0].tolist() == list(range(9))


def test_conjugate_and_negative_views(tmp_path: Path) -> None:
    value = torch.randn(3, dtype=torch.complex64)
    values = [value.conj(), value.conj().imag]
    for one, other in zip(values, there_and_back(tmp_path, *values), strict=True):
        assert_same(one, other)
        assert one.equal(other)


def test_parameters(tmp_path: Path) -> None:
    values = [torch.nn.Parameter(torch.randn(2)), torch.nn.Parameter(torch.ones(1), False)]
    for one, other in zip(values, there_and_back(tmp_path, *values), strict=True):
        assert_same(one, other)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantised(tmp_path: Path) -> None:
    plain = torch.randn(3, 4)
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 2, 3])
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
    plain = torch.eye(3)
    for one in (plain.to_sparse(), plain.to_sparse_csr(), plain.to_sparse_csc()):
        one.requires_grad_()
        (other,) = there_and_back(tmp_path, one)
        assert other.layout == one.layout and other.requires_grad
        assert other.to_dense().equal(plain)


def test_containers_and_constants(tmp_path: Path) -> None:
    tensor = torch.randn(2)
    (read,) = there_and_back(
        tmp_path, {"x": [tensor, (tensor,)], 2: torch.float16, "s": torch.Size([1]), "n": None}
    )
    assert read["x"][0] is read["x"][1][0]
    assert read[2] is torch.float16 and read["s"] == torch.Size([1]) and read["n"] is None


def test_symbolic_sizes(tmp_path: Path) -> None:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    fake = mode.from_tensor(torch.randn(6, 3), symbolic_context=context)
    writer = InputWriter()
    text = writer.text([fake.size(0), fake])
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    reader = InputReader()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size, tensor = namespace["load_inputs"](reader)
    assert size == 6 and tensor.shape == (6, 3)
    assert list(reader.symbols.values()) == [6]


def test_missing_contents_are_random_and_say_so(tmp_path: Path) -> None:
    values = [torch.randn(5, dtype=torch.bfloat16), torch.tensor([3, 9, 4])]
    writer = InputWriter(tmp_path)
    text = writer.text(values)
    for path in tmp_path.iterdir():
        path.write_bytes(b"cut")
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    with pytest.warns(UserWarning, match="random") as caught:
        floats, ints = namespace["load_inputs"](InputReader(tmp_path))
    assert len(caught) == 1
    assert floats.isfinite().all() and floats.dtype == torch.bfloat16
    assert int(ints.min()) >= 3 and int(ints.max()) <= 9


def test_changed_contents_are_not_taken(tmp_path: Path) -> None:
    text = InputWriter(tmp_path).text([torch.zeros(64)])
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"\xff" * 256)
    namespace: dict[str, Any] = {"torch": torch}
    exec(text, namespace)
    with pytest.warns(UserWarning, match="random"):
        (read,) = namespace["load_inputs"](InputReader(tmp_path))
    assert read.isfinite().all()


def test_half_a_file_never_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        InputWriter(tmp_path).text([torch.ones(3)])
    assert not list(tmp_path.iterdir())


def test_a_bar_while_many_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    reader = InputReader(None, 20)
    for _ in range(20):
        reader.storage(None, 0)
    assert screen.getvalue().endswith("20/20\n")
    assert screen.getvalue().count("\r") == 20


def test_few_are_loaded_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    InputReader(None, 3).storage(None, 0)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_what_is_no_input() -> None:
    with pytest.raises(Unwritable, match="object"):
        InputWriter().text([object()])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Unwritable, match="itself"):
        InputWriter().text([loop])


def test_the_reader_stands_alone(tmp_path: Path) -> None:
    """Pasted into a script, in a Python that has torch and nothing of this project."""
    value = torch.arange(6).view(2, 3).t()
    text = InputWriter(tmp_path / "data").text([value])
    script = tmp_path / "script.py"
    check = (
        f"(x,) = load_inputs(InputReader({str(tmp_path / 'data')!r}, 1))\n"
        "assert x.tolist() == [[0, 3], [1, 4], [2, 5]] and x.stride() == (1, 3)\n"
    )
    script.write_text(reader_source() + "\n\n" + text + "\n\n" + check)
    subprocess.run([sys.executable, "-I", str(script)], check=True)


def test_inputs_from_annotations() -> None:
    def f(x: "f32[s0, 16]", mask: "b8[s0]", scale=2.0, *, y: "i64[s0=6]"):  # noqa: F722, F821, UP037
        return x

    args, kwargs = arguments(f)
    assert [(one.dtype, tuple(one.shape)) for one in args] == [
        (torch.float32, (6, 16)),
        (torch.bool, (6,)),
    ]
    assert kwargs["y"].shape == (6,)
    assert package.arguments(f, {"s0": 3})[0][0].shape == (3, 16)
    with pytest.raises(Unwritable, match="`x` has no shape annotation"):
        arguments(lambda x: x)
