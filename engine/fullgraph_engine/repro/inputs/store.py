"""Contents of tensors as files that are named by what is in them."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

import torch

from ...protocol.repro import DATA, data_name

MOST = 256 << 20
"""Bytes that the data of one script may have."""


class Store:
    """A folder for contents. What is equal is saved once."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder, self.most = folder, most
        self._names: dict[tuple[object, ...], tuple[torch.Tensor, str | None]] = {}

    @classmethod
    def of_process(cls) -> Store:
        """In the scratch folder of this process."""
        return cls(Path(tempfile.gettempdir(), DATA))

    @classmethod
    def choices(cls, *, always: bool, if_needed: bool) -> tuple[Store | None, ...]:
        """Where programs have the contents of their tensors from, in the order to be tried."""
        if always:
            return (cls.of_process(),)
        return (None, cls.of_process()) if if_needed else (None,)

    def save(self, data: torch.Tensor) -> str | None:
        """The name of the file with the elements of a tensor in their order; None where there is
        no room for them."""
        storage = data.untyped_storage()
        where = (storage._cdata, data.storage_offset(), data.stride(), data.shape, data.dtype)
        key = (*where, data._version)
        if key not in self._names:
            # Kept, so that no other tensor gets its address.
            self._names[key] = (data, self._saved(data))
        return self._names[key][1]

    def _saved(self, data: torch.Tensor) -> str | None:
        local = data.detach().cpu().contiguous()
        content = memoryview((ctypes.c_char * local.nbytes).from_address(local.data_ptr()))
        name = data_name(content)
        path = self.folder / name
        if path.exists():
            return name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            used = sum(each.stat().st_size for each in self.folder.iterdir())
            if used + local.nbytes > self.most:
                return None
            # Never half a file: written beside it, then moved.
            descriptor, temporary = tempfile.mkstemp(dir=self.folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                Path(temporary).replace(path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError:
            return None
        return name
