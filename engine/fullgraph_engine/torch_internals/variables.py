"""Dynamo's ``VariableTracker`` classes, with which its symbolic interpreter represents values."""

from __future__ import annotations

from .binding import Internal, Spelling, internal

_VALUES = "expressions and variables that are tensors"
_SHAPES = "shapes and dtypes in assignments and expressions"
_V = "torch._dynamo.variables"

TENSOR = internal("values", _VALUES, f"{_V}.tensor", "TensorVariable")
ARRAY = internal("values", _VALUES, f"{_V}.tensor", "NumpyNdarrayVariable")
NUMBER = internal("values", _VALUES, f"{_V}.tensor", "UnspecializedPythonVariable")
ITEM = internal("values", _VALUES, f"{_V}.tensor", "FakeItemVariable")
MODULE = internal("values", _VALUES, f"{_V}.nn_module", "NNModuleVariable")
USER_MODULE = internal("values", _VALUES, f"{_V}.nn_module", "UnspecializedNNModuleVariable")
LAZY = internal("values", _VALUES, f"{_V}.lazy", "LazyVariableTracker")
CELL = internal("values", _VALUES, f"{_V}.misc", "CellVariable")
DELETED = internal("values", _VALUES, f"{_V}.misc", "DeletedVariable")
ATTRIBUTE = internal("values", _VALUES, f"{_V}.misc", "GetAttrVariable")
NULL = internal("values", _VALUES, f"{_V}.misc", "NullVariable")

SYMBOL = internal("shapes", _SHAPES, f"{_V}.tensor", "SymNodeVariable")
SIZE = internal("shapes", _SHAPES, f"{_V}.lists", "SizeVariable")
TUPLE = internal("shapes", _SHAPES, f"{_V}.lists", "TupleVariable")
NAMED_TUPLE = Internal(
    "shapes",
    _SHAPES,
    (
        # Listed first: the other class is older and represents named tuples only since 2.12.
        Spelling(f"{_V}.lists", "NamedTupleVariable", "up to 2.11"),
        Spelling(
            f"{_V}.user_defined",
            "UserDefinedTupleVariable",
            "since 2.12",
            "named tuples became tuples of user-defined classes",
        ),
    ),
)
LIST = internal("shapes", _SHAPES, f"{_V}.lists", "ListVariable")

CONSTANT = internal(
    "guards",
    "guarded values that the code changes, and constants in hints",
    f"{_V}.constant",
    "ConstantVariable",
)

COMPUTED = internal(
    "guards",
    "guarded values that the code changes",
    f"{_V}.lazy",
    "ComputedLazyConstantVariable",
)
"""Class of Dynamo for constants that user code computes, since torch 2.14. Earlier releases use
:data:`CONSTANT` for them."""

VALUES = (
    TENSOR,
    ARRAY,
    NUMBER,
    ITEM,
    MODULE,
    USER_MODULE,
    LAZY,
    CELL,
    DELETED,
    ATTRIBUTE,
    NULL,
)
"""Classes needed to report which expressions were tensors. If one is missing, the reports would be
wrong."""

SHAPES = (SYMBOL, CONSTANT, SIZE, TUPLE, NAMED_TUPLE, LIST)
"""Classes of Dynamo needed, in addition to :data:`VALUES`, to report dtypes and sizes."""

INTERNALS = (*VALUES, *SHAPES)
