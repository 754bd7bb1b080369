"""The table of writers for all types of values, in the order in which they are tried."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from collections.abc import Callable

import torch

from . import definitions, instances, layers, modules, numpy_values, torch_values
from . import python_values as python
from .printer import PLAIN_BASES, Printer, Writers
from .reachability import is_library
from .tensors import tensor


def _is_any_of(*kinds: type) -> Callable[[object], bool]:
    """Return a function that tests if a value is an instance of these classes."""
    return lambda value: isinstance(value, kinds)


WRITERS: Writers = (
    (callable, python.write_compiled),
    (_is_any_of(torch.Tensor), tensor.write_tensor),
    (_is_any_of(torch.nn.Module), modules.write_module),
    (_is_any_of(enum.Enum), python.write_enum_member),
    (_is_any_of(types.MethodType), python.write_bound_method),
    (definitions.is_bound_builtin, python.write_bound_method),
    (definitions.is_referable, python.write_reference),
    (torch_values.is_operator, python.write_reference),
    # Exact builtin types.
    (list, python.write_list),
    (tuple, python.write_tuple),
    (dict, Printer.dict_display),
    (set, python.write_set),
    (frozenset, python.write_set),
    (functools.partial, python.write_partial),
    (types.SimpleNamespace, python.write_namespace),
    (_is_any_of(range, *torch_values.SINGLETONS), python.write_repr),
    *((kind, python.write_lock) for kind in python.LOCKS),
    # Values of torch and NumPy other than tensors and modules.
    (_is_any_of(torch.device), torch_values.write_device),
    (_is_any_of(torch.SymInt, torch.SymFloat, torch.SymBool), torch_values.write_symbol),
    (_is_any_of(torch.Generator), torch_values.write_generator),
    (_is_any_of(torch.finfo, torch.iinfo), torch_values.write_limits),
    (numpy_values.is_numpy, numpy_values.write_numpy_value),
    # Objects whose class describes their contents, such as dataclasses and named tuples.
    (dataclasses.is_dataclass, python.write_dataclass),
    (_is_any_of(tuple), python.write_tuple_subclass),
    (python.is_standard, python.write_reduced),
    (_is_any_of(*PLAIN_BASES), python.write_plain_subclass),
    (lambda value: is_library(type(value)), layers.write_constructor_call),
    (lambda value: not is_library(type(value)), instances.write_instance),
)
