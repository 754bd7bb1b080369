"""Repeat a call with the same arguments, except for changed sizes or values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..torch_internals.fake_tensors import FakeTensor
from ..torch_internals.trees import pytree

_RESIZABLE_TYPES = (torch.Tensor, FakeTensor, torch.nn.Parameter)


@dataclass(frozen=True)
class Leaf:
    """One value in the nested arguments of a call, such as a tensor or a number.

    ``name`` is its expression inside the called function. ``given`` is false for a default that was
    not passed. ``optional`` is true if None is a valid value, because it is the parameter's
    default.
    """

    name: str
    value: Any
    given: bool = True
    optional: bool = False


class Inputs:
    """The arguments of a call, bound to the parameters of the called function."""

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        called = function.forward if isinstance(function, torch.nn.Module) else function
        self._bound: inspect.BoundArguments | None = None
        parameters: Mapping[str, inspect.Parameter] = {}
        try:
            signature = inspect.signature(called)
            self._bound = signature.bind(*args, **kwargs)
            parameters = signature.parameters
        except (TypeError, ValueError):
            pass
        self._args, self._kwargs = tuple(args), dict(kwargs)
        tree: dict[str, Any] = (
            {"args": self._args, "kwargs": self._kwargs}
            if self._bound is None
            else dict(self._bound.arguments)
        )
        paths, self._spec = pytree.tree_flatten_with_path(tree)
        self.leaves = [
            Leaf(_leaf_name(path), value, optional=_is_optional(path, parameters))
            for path, value in paths
        ]
        self._given = len(self.leaves)
        self.left_out = [
            name
            for name, parameter in parameters.items()
            if parameter.default is None and (tree.get(name) is None)
        ]
        """Names of the parameters that got None as their default in this call."""
        for name, parameter in parameters.items():
            absent = self._bound is not None and name not in self._bound.arguments
            if absent and isinstance(parameter.default, bool):
                self.leaves.append(Leaf(name, parameter.default, given=False))

    def make_arguments(
        self,
        sizes: Mapping[tuple[int, int], int] | None = None,
        values: Mapping[int, Any] | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[int, torch.Tensor]]:
        """Return new arguments for the call, with new tensors and some values changed.

        ``sizes`` are changed sizes by (number of the leaf, dimension), ``values`` changed values by
        number of the leaf. Arguments that share one tensor share the new one too. The results are
        the positional and the keyword arguments, and the new tensor of each leaf, by number.
        """
        sizes, values = sizes or {}, values or {}
        new_by_id: dict[int, Any] = {}
        new_by_leaf: dict[int, torch.Tensor] = {}
        leaves: list[Any] = []
        for number, leaf in enumerate(self.leaves):
            value = values.get(number, leaf.value)
            if isinstance(value, torch.Tensor):
                new = new_by_id.get(id(value))
                if new is None:
                    new_sizes = {dim: size for (at, dim), size in sizes.items() if at == number}
                    new = new_by_id[id(value)] = resize_tensor(value, new_sizes)
                value = new_by_leaf[number] = new
            leaves.append(value)
        tree = pytree.tree_unflatten(leaves[: self._given], self._spec)
        if self._bound is None:
            return tree["args"], tree["kwargs"], new_by_leaf
        arguments = {**self._bound.arguments, **tree}
        for number in range(self._given, len(self.leaves)):
            if number in values:
                arguments[self.leaves[number].name] = values[number]
        bound = inspect.BoundArguments(
            self._bound.signature,
            # Positional arguments follow the order of the signature.
            {
                name: arguments[name]
                for name in self._bound.signature.parameters
                if name in arguments
            },
        )
        return bound.args, bound.kwargs, new_by_leaf


def replace_arguments(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    values: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with the given parameters set to other values.

    Raises:
        TypeError: The arguments do not match the function's signature.
    """
    called = function.forward if isinstance(function, torch.nn.Module) else function
    bound = inspect.signature(called).bind(*args, **kwargs)
    arguments = {**bound.arguments, **values}
    # Positional arguments follow the order of the signature.
    bound.arguments = {
        name: arguments[name] for name in bound.signature.parameters if name in arguments
    }
    return bound.args, bound.kwargs


def can_be_resized(value: Any) -> bool:
    """Whether a value is a strided tensor, not of a user's subclass, so that it can be resized."""
    return type(value) in _RESIZABLE_TYPES and value.layout is torch.strided


def resize_tensor(tensor: torch.Tensor, sizes: Mapping[int, int]) -> torch.Tensor:
    """Return a copy of a tensor with other sizes, its values repeated.

    ``sizes`` are by dimension. A tensor that :func:`can_be_resized` refuses is returned as is.
    """
    if not can_be_resized(tensor):
        return tensor
    with torch.no_grad():
        result = tensor.detach()
        for dim, size in sizes.items():
            index = torch.arange(size, device=tensor.device) % tensor.shape[dim]
            result = result.index_select(dim, index)
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        if not sizes:
            result = result.clone()
        elif not tensor.is_contiguous():
            inverse_order = sorted(range(tensor.dim()), key=order.__getitem__)
            result = result.permute(order).contiguous().permute(inverse_order)
    return result.requires_grad_(tensor.requires_grad)


def _leaf_name(path: Sequence[Any]) -> str:
    first, *rest = path
    name = str(getattr(first, "key", first))
    return name + pytree.keystr(tuple(rest))


def _is_optional(path: Sequence[Any], parameters: Mapping[str, inspect.Parameter]) -> bool:
    parameter = parameters.get(str(getattr(path[0], "key", "")))
    return len(path) == 1 and parameter is not None and parameter.default is None
