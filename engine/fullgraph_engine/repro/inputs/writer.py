"""Writes inputs as a function that loads them.

Tensors that share memory share it again: there is one line for each storage, and one for each
tensor that says where in it the tensor lies.
"""

from __future__ import annotations

import collections
import ctypes
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..writing.tensors import INTEGERS, contiguous, hint, is_fake, is_wrapper
from ..writing.unwritable import Unwritable
from ..writing.values import constant, reading


def reader_source() -> str:
    """The text of the reader, to be pasted into a script."""
    return Path(__file__).with_name("reader.py").read_text(encoding="utf-8")


class InputWriter:
    """Collects values. With a ``folder``, the contents of their storages are saved in it.

    Raises ``OSError`` where the folder cannot be written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.storages = 0
        self._lines: list[str] = []
        self._storages: dict[tuple[int, str], str] = {}
        self._tensors: dict[int, tuple[object, str]] = {}
        # Kept, so that no other storage gets the address of one while this one writes.
        self._kept: list[object] = []
        self._active: set[int] = set()

    def text(self, values: Sequence[object], name: str = "load_inputs") -> str:
        """``def load_inputs(reader)``, which returns a list of the values.

        Raises:
            Unwritable: one of them is no tensor, constant or container of such.
        """
        with reading():
            parts = [self._value(value) for value in values]
        lines = [*self._lines, f"return [{', '.join(parts)}]"]
        body = "\n".join(f"    {line}" for line in lines)
        return f"def {name}(reader):\n{body}\n"

    def _value(self, value: Any) -> str:
        text = constant(value)
        if text is not None:
            return text
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return f"reader.symbol({hint(value)!r}, {str(value.node.expr)!r})"
        if isinstance(value, torch.Size):
            return f"torch.Size([{', '.join(map(self._value, value))}])"
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, torch.Generator):
            where = str(value.device)
            return f"torch.Generator({where!r}).manual_seed({value.initial_seed()})"
        return self._container(value)

    def _container(self, value: Any) -> str:
        if id(value) in self._active:
            raise Unwritable(f"a {type(value).__name__} contains itself")
        self._active.add(id(value))
        try:
            if type(value) in (list, tuple):
                inner = ", ".join(map(self._value, value))
                if type(value) is list:
                    return f"[{inner}]"
                return f"({inner}{',' if len(value) == 1 else ''})"
            if type(value) in (dict, collections.OrderedDict):
                items = value.items()
                inner = ", ".join(f"{self._value(key)}: {self._value(one)}" for key, one in items)
                return f"{{{inner}}}"
        finally:
            self._active.discard(id(value))
        kind = type(value)
        raise Unwritable(f"a {kind.__module__}.{kind.__qualname__} is no tensor or constant")

    # -- tensors ------------------------------------------------------------------------------

    def _tensor(self, value: torch.Tensor) -> str:
        known = self._tensors.get(id(value))
        if known is not None:
            return known[1]
        name = f"tensor_{len(self._tensors)}"
        self._tensors[id(value)] = (value, name)
        text = self._made(value)
        if isinstance(value, torch.nn.Parameter):
            text = f"torch.nn.Parameter({text}, {value.requires_grad})"
        elif type(value) is not torch.Tensor and not is_fake(value):
            raise Unwritable(f"a {type(value).__qualname__} is no plain tensor")
        self._lines.append(f"{name} = {text}")
        return name

    def _made(self, value: torch.Tensor) -> str:
        size = tuple(hint(one) for one in value.size())
        grad = ".requires_grad_()" if value.requires_grad else ""
        if value.layout is torch.sparse_coo:
            parts = self._value((value._indices(), value._values().detach(), size))
            return f"torch.sparse_coo_tensor(*{parts}, is_coalesced={value.is_coalesced()}){grad}"
        if value.layout in (torch.sparse_csr, torch.sparse_bsr):
            parts = self._value(
                (value.crow_indices(), value.col_indices(), value.values().detach(), size)
            )
            return f"torch.sparse_compressed_tensor(*{parts}, layout={value.layout}){grad}"
        if value.layout in (torch.sparse_csc, torch.sparse_bsc):
            parts = self._value(
                (value.ccol_indices(), value.row_indices(), value.values().detach(), size)
            )
            return f"torch.sparse_compressed_tensor(*{parts}, layout={value.layout}){grad}"
        if value.is_quantized:
            return self._quantised(value)
        if value.layout is not torch.strided or (is_wrapper(value) and not is_fake(value)):
            raise Unwritable(f"a tensor of layout {value.layout} cannot be saved")
        return self._strided(value, size)

    def _strided(self, value: torch.Tensor, size: tuple[int, ...]) -> str:
        stride = tuple(hint(one) for one in value.stride())
        offset = hint(value.storage_offset())
        said = [self._storage(value), repr(size)]
        if stride != contiguous(size):
            said.append(f"stride={stride}")
        if offset:
            said.append(f"offset={offset}")
        if value.dtype != torch.float32:
            said.append(f"dtype={value.dtype}")
        if value.requires_grad and not isinstance(value, torch.nn.Parameter):
            said.append("requires_grad=True")
            if not value.is_leaf:
                said.append("is_leaf=False")
        if value.is_complex() and value.is_conj():
            said.append("conj=True")
        if value.is_neg():
            said.append("neg=True")
        return f"reader.tensor({', '.join(said)})"

    def _quantised(self, value: torch.Tensor) -> str:
        numbers = self._tensor(value.int_repr())
        if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            scale, zero = value.q_scale(), value.q_zero_point()
            return f"torch._make_per_tensor_quantized_tensor({numbers}, {scale!r}, {zero})"
        if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
            scales = self._tensor(value.q_per_channel_scales())
            zeros = self._tensor(value.q_per_channel_zero_points())
            axis = value.q_per_channel_axis()
            made = "torch._make_per_channel_quantized_tensor"
            return f"{made}({numbers}, {scales}, {zeros}, {axis})"
        raise Unwritable(f"a tensor quantised by {value.qscheme()} cannot be saved")

    # -- storages -----------------------------------------------------------------------------

    def _storage(self, value: torch.Tensor) -> str:
        storage = value.untyped_storage()
        key = (storage._cdata, str(value.device))
        known = self._storages.get(key)
        if known is not None:
            return known
        name = f"storage_{self.storages}"
        self.storages += 1
        self._storages[key] = name
        real = not is_fake(value) and value.device.type != "meta"
        nbytes = hint(storage.nbytes())
        digest = self._saved(storage) if real and self.folder is not None and nbytes else None
        said = [repr(digest), str(nbytes)]
        if value.dtype != torch.float32:
            said.append(f"dtype={value.dtype}")
        if value.device.type not in ("cpu", "meta"):
            said.append(f"device={str(value.device)!r}")
        between = _between(value) if real and nbytes else None
        if between is not None:
            said.append(f"between={between}")
        self._kept.append(storage)
        self._lines.append(f"{name} = reader.storage({', '.join(said)})")
        return name

    def _saved(self, storage: torch.UntypedStorage) -> str:
        """Save the bytes under their hash; equal ones are saved once."""
        assert self.folder is not None
        local = storage if storage.device.type == "cpu" else storage.cpu()
        data = memoryview((ctypes.c_char * local.nbytes()).from_address(local.data_ptr()))
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / digest
        if path.exists():
            return digest
        self.folder.mkdir(parents=True, exist_ok=True)
        # Never half a file: written beside it, then moved.
        descriptor, temporary = tempfile.mkstemp(dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        return digest


def _between(value: torch.Tensor) -> tuple[int, int] | None:
    """The least and the greatest integer in the storage of ``value``."""
    if value.dtype not in INTEGERS:
        return None
    count = value.untyped_storage().nbytes() // value.dtype.itemsize
    flat = torch.empty(0, dtype=value.dtype, device=value.device)
    flat.set_(value.untyped_storage(), 0, (count,), (1,))
    try:
        low, high = flat.aminmax()
    except RuntimeError:  # not defined for the unsigned types
        low, high = flat.to(torch.int64).aminmax()
    return int(low), min(int(high), (1 << 63) - 2)
