"""Loads the inputs that an InputWriter has written. Needs nothing but torch."""

import hashlib
import sys
import warnings
from pathlib import Path
from typing import Any

import torch


class InputReader:
    """``folder`` has the contents of the storages, each in a file that is named by its hash.

    Contents that are not there are random, and a warning says so.
    """

    def __init__(self, folder: "str | Path | None" = None, count: int = 0) -> None:
        self.folder = None if folder is None else Path(folder)
        self.symbols: dict[str, int] = {}
        self.missing = 0
        self._count, self._done = count, 0

    def storage(
        self,
        digest: "str | None",
        nbytes: int,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        between: "tuple[int, int] | None" = None,
    ) -> torch.UntypedStorage:
        """The memory of one or several tensors; ``between`` bounds integers that are random."""
        storage: torch.UntypedStorage | None = self._stored(digest, nbytes)
        if storage is None:
            storage = self._random(nbytes, dtype, between)
        self._progress()
        if torch.device(device).type == "cpu":
            return storage
        flat = torch.empty(0, dtype=torch.uint8).set_(storage)
        return flat.to(device).untyped_storage()

    def tensor(
        self,
        storage: torch.UntypedStorage,
        size: "tuple[int, ...]",
        stride: "tuple[int, ...] | None" = None,
        offset: int = 0,
        dtype: torch.dtype = torch.float32,
        requires_grad: bool = False,
        is_leaf: bool = True,
        conj: bool = False,
        neg: bool = False,
    ) -> torch.Tensor:
        """A tensor that lies in ``storage``."""
        if stride is None:
            stride = torch.empty(size, device="meta").stride()
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        with torch.no_grad():
            tensor.set_(storage, offset, size, stride)
            if conj:
                tensor = tensor.conj()
            if neg:
                tensor = torch._neg_view(tensor)
        tensor.requires_grad_(requires_grad)
        if not is_leaf:
            # A clone has a history; then it is given the memory back.
            with torch.enable_grad():
                tensor = tensor.clone(memory_format=torch.preserve_format)
            with torch.no_grad():
                tensor.set_(storage, offset, size, stride)
        return tensor

    def symbol(self, value: int, name: str) -> int:
        """A size that was symbolic, with the number that it stood for."""
        self.symbols[name] = value
        return value

    def _stored(self, digest: "str | None", nbytes: int) -> Any:
        if nbytes == 0:
            return torch.UntypedStorage(0)
        if self.folder is None or digest is None:
            return None
        path = self.folder / digest
        try:
            if path.stat().st_size != nbytes:
                return None
            with path.open("rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != digest:
                    return None
            # Not shared: what is written to the memory is not written to the file.
            mapped: Any = torch.UntypedStorage.from_file(str(path), False, nbytes)
        except (OSError, RuntimeError):
            return None
        return mapped

    def _random(
        self, nbytes: int, dtype: torch.dtype, between: "tuple[int, int] | None"
    ) -> torch.UntypedStorage:
        self.missing += 1
        if self.missing == 1:
            where = "no folder was given" if self.folder is None else f"not in {self.folder}"
            warnings.warn(f"the contents of inputs are random: {where}", stacklevel=3)
        storage = torch.UntypedStorage(nbytes)
        count = nbytes // dtype.itemsize
        tensor: Any = torch.empty(0, dtype=dtype).set_(storage, 0, (count,), (1,))
        random = torch.randn(count)
        if dtype.is_complex:
            torch.view_as_real(tensor).copy_(torch.randn(count, 2))
        elif dtype.is_floating_point and dtype.itemsize > 1:
            tensor.copy_(random)
        elif dtype == torch.bool:
            tensor.copy_(random > 0)
        elif between is not None:
            tensor.copy_(torch.randint(between[0], between[1] + 1, (count,)))
        else:
            torch.empty(0, dtype=torch.uint8).set_(storage).zero_()
        return storage

    def _progress(self) -> None:
        self._done += 1
        if self._count < 16 or not sys.stderr.isatty():
            return
        filled = 30 * self._done // self._count
        bar = "#" * filled + "." * (30 - filled)
        end = "\n" if self._done == self._count else ""
        print(f"\rloading inputs {bar} {self._done}/{self._count}", end=end, file=sys.stderr)
