"""Storage of tensor contents in files named by a hash of their contents."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

import torch

from ...protocol.repro import DATA, data_name

MOST = 256 << 20
"""Maximum size in bytes of the data of one script."""


class TensorStore:
    """A folder for the contents of tensors; equal contents share one file."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder, self.most = folder, most
        self._names: dict[tuple[object, ...], tuple[torch.Tensor, str | None]] = {}

    @classmethod
    def for_process(cls) -> TensorStore:
        """Return a store in the scratch folder of this process."""
        return cls(Path(tempfile.gettempdir(), DATA))

    @classmethod
    def choices(cls, *, always: bool, if_needed: bool) -> tuple[TensorStore | None, ...]:
        """Return the stores to try for tensor contents, in order of preference.

        None in the result stands for programs without contents. ``always``: every program needs the
        contents. ``if_needed``: programs with contents are tried last.
        """
        if always:
            return (cls.for_process(),)
        return (None, cls.for_process()) if if_needed else (None,)

    def save(self, data: torch.Tensor) -> str | None:
        """Save the elements of a tensor and return the file name, or None if the store is full."""
        storage = data.untyped_storage()
        where = (storage._cdata, data.storage_offset(), data.stride(), data.shape, data.dtype)
        key = (*where, data._version)
        if key not in self._names:
            # A reference keeps the tensor alive, so that no other tensor gets its address.
            self._names[key] = (data, self._write_file(data))
        return self._names[key][1]

    def _write_file(self, data: torch.Tensor) -> str | None:
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
            # Write to a temporary file first, so that no reader sees a partial file.
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
