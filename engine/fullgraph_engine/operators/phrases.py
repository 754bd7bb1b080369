"""Types and defaults in the words of the argument parser's errors.

torchgen writes the signatures that ``torch/csrc/utils/python_arg_parser.cpp`` reads (``Scalar
alpha=1``); an error of that parser prints them with names of Python (``Number alpha = 1``).
"""

from __future__ import annotations

import functools
import re

# Names of `FunctionParameter::type_name`, by what torchgen's `argument_type_str` writes.
_TYPES = {
    "Tensor": "Tensor",
    "Scalar": "Number",
    "int64_t": "int",
    "SymInt": "int",
    "DeviceIndex": "int",
    "double": "float",
    "bool": "bool",
    "c10::string_view": "str",
    "TensorList": "tuple of Tensors",
    "c10::List<::std::optional<Tensor>>": "tuple of Tensors",
    "IntArrayRef": "tuple of ints",
    "SymIntArrayRef": "tuple of ints",
    "ArrayRef<double>": "tuple of floats",
    "ArrayRef<Scalar>": "tuple of Scalars",
    "ScalarList": "tuple of Scalars",
    "::std::array<bool>": "tuple of bools",
    "Generator": "torch.Generator",
    "Storage": "torch.Storage",
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "MemoryFormat": "torch.memory_format",
    "QScheme": "torch.qscheme",
    "Device": "torch.device",
    "Stream": "torch.Stream",
    # Up to torch 2.12: since then nothing is bound that takes names of dimensions.
    "Dimname": "name",
    "DimnameList": "tuple of names",
}

_INTS = "tuple of ints"

# C++ that stands in signatures as a default, as Python. The parser reads numbers with `atol`, which
# makes 0 of the name of a reduction: a binding called without `reduction` does not reduce.
_DEFAULTS = {
    "c10::MemoryFormat::Contiguous": "torch.contiguous_format",
    "at::Reduction::None": "0",
    "at::Reduction::Mean": "0",
    "at::Reduction::Sum": "0",
    "QScheme::PER_TENSOR_AFFINE": "torch.per_tensor_affine",
    "{}": "None",
}

_SIZED = re.compile(r"^(.*?)(?:\[(\d+)\])?(\?*)$")
_SIZED_ARRAY = re.compile(r",\d+>$")


@functools.cache
def type_words(written: str) -> tuple[str, int, bool]:
    """A type of torchgen: its name, the size of a list of ints, and if None may stand for it."""
    found = _SIZED.match(_SIZED_ARRAY.sub(">", written))
    assert found is not None
    base, size, optional = found.groups()
    words = _TYPES.get(base, base)
    return words, int(size or 0) if words == _INTS else 0, bool(optional)


@functools.cache
def default_words(written: str) -> str:
    """A default as Python source."""
    if written in _DEFAULTS:
        return _DEFAULTS[written]
    if written.startswith("{") and written.endswith("}"):
        items = [default_words(item.strip()) for item in written[1:-1].split(",")]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return written
