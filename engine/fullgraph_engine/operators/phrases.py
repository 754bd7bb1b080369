"""Convert torchgen's types and defaults to the names in error messages of torch's argument parser.

torchgen writes signatures for the parser (``torch/csrc/utils/python_arg_parser.cpp``) with C++
names, as in ``Scalar alpha=1``. Its error messages have Python names: ``Number alpha = 1``.
"""

from __future__ import annotations

import functools
import re

# Names as in `FunctionParameter::type_name`, by the output of torchgen's `argument_type_str`.
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
    # Only up to torch 2.12: bindings of later versions do not accept names of dimensions.
    "Dimname": "name",
    "DimnameList": "tuple of names",
}

_INTS = "tuple of ints"

# Python source of default values, by the C++ source. The parser reads numbers with `atol`, which
# converts the name of a reduction to 0: a binding does not reduce if the call omits `reduction`.
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
def parser_type(type_text: str) -> tuple[str, int, bool]:
    """Convert a type as torchgen writes it, for example ``SymIntArrayRef[2]?``.

    Returns a tuple. The first item is the type's name in error messages of torch's argument parser
    (``tuple of ints``). The second item is the fixed size of a list of ints, 0 if it is not fixed.
    The third item says whether the type accepts None.
    """
    found = _SIZED.match(_SIZED_ARRAY.sub(">", type_text))
    assert found is not None
    base, size, optional = found.groups()
    type_name = _TYPES.get(base, base)
    return type_name, int(size or 0) if type_name == _INTS else 0, bool(optional)


@functools.cache
def default_as_python(default: str) -> str:
    """Convert the default value of a parameter from torchgen's C++ source to Python source."""
    if default in _DEFAULTS:
        return _DEFAULTS[default]
    if default.startswith("{") and default.endswith("}"):
        items = [default_as_python(item.strip()) for item in default[1:-1].split(",")]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return default
