"""Who writes what: the table of all kinds of values, in the order in which they are tried."""

from __future__ import annotations

import collections
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


def _any(*kinds: type) -> Callable[[object], bool]:
    """Instances of these classes and of those that derive from them."""
    return lambda value: isinstance(value, kinds)


WRITERS: Writers = (
    (callable, python.compiled),
    (_any(torch.Tensor), tensor.written),
    (_any(torch.nn.Module), modules.written),
    (_any(enum.Enum), python.enum_member),
    (_any(types.MethodType), python.bound_method),
    (definitions.is_bound_builtin, python.bound_method),
    (definitions.is_referable, python.named),
    (torch_values.is_operator, python.named),
    # Python's own, no derived classes.
    (list, python.list_),
    (tuple, python.tuple_),
    (dict, Printer.entries),
    (collections.OrderedDict, python.ordered_dict),
    (collections.defaultdict, python.defaultdict),
    (collections.Counter, python.counter),
    (collections.deque, python.deque),
    (set, python.set_),
    (frozenset, python.frozenset_),
    (range, python.range_),
    (slice, python.slice_),
    (bytearray, python.bytearray_),
    (functools.partial, python.partial),
    (types.SimpleNamespace, python.namespace),
    (types.MappingProxyType, python.mapping_proxy),
    (types.GenericAlias, python.generic_alias),
    *((kind, python.view) for kind in python.VIEWS),
    *((kind, python.lock) for kind in python.LOCKS),
    # What torch and numpy have besides tensors and modules.
    (_any(torch.dtype, torch.layout, torch.memory_format, torch.qscheme), torch_values.spelled),
    (_any(torch.device), torch_values.device),
    (_any(torch.Size), torch_values.size),
    (_any(torch.SymInt, torch.SymFloat, torch.SymBool), torch_values.symbol),
    (_any(torch.Generator), torch_values.generator),
    (_any(torch.finfo, torch.iinfo), torch_values.limits),
    (torch_values.is_returned, torch_values.returned),
    (numpy_values.is_numpy, numpy_values.numpy_value),
    # Classes that say of what their instances are made.
    (dataclasses.is_dataclass, python.dataclass),
    (_any(tuple), python.tuple_subclass),
    (_any(*PLAIN_BASES), python.plain_subclass),
    (python.is_standard, python.reduced),
    (lambda value: is_library(type(value)), layers.constructed),
    (lambda value: not is_library(type(value)), instances.written),
)
