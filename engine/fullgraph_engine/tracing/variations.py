"""The inputs of a call once more, with something changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..torch_internals.fake_tensors import FakeTensor
from ..torch_internals.trees import pytree

_PLAIN = (torch.Tensor, FakeTensor, torch.nn.Parameter)


@dataclass(frozen=True)
class Leaf:
    """One value of the arguments. ``name`` is how the called function would write it.

    ``given``: it was passed, and is not only a default. ``optional``: None would do as well.
    """

    name: str
    value: Any
    given: bool = True
    optional: bool = False


class Inputs:
    """The arguments of a call, as the parameters of the function that get them."""

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
            Leaf(_words(path), value, optional=_is_optional(path, parameters))
            for path, value in paths
        ]
        self._given = len(self.leaves)
        self.left_out = [
            name
            for name, one in parameters.items()
            if one.default is None and (tree.get(name) is None)
        ]
        """Parameters that are None, as they are by default."""
        for name, parameter in parameters.items():
            absent = self._bound is not None and name not in self._bound.arguments
            if absent and isinstance(parameter.default, bool):
                self.leaves.append(Leaf(name, parameter.default, given=False))

    def again(
        self,
        sizes: Mapping[tuple[int, int], int] | None = None,
        values: Mapping[int, Any] | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[int, torch.Tensor]]:
        """Arguments of the same call with fresh tensors, and these by the number of their leaf.

        ``sizes`` by leaf and dimension, ``values`` by leaf. What were one tensor stays one.
        """
        sizes, values = sizes or {}, values or {}
        fresh: dict[int, Any] = {}
        renewed: dict[int, torch.Tensor] = {}
        leaves: list[Any] = []
        for number, leaf in enumerate(self.leaves):
            value = values.get(number, leaf.value)
            if isinstance(value, torch.Tensor):
                known = fresh.get(id(value))
                if known is None:
                    wanted = {dim: size for (at, dim), size in sizes.items() if at == number}
                    known = fresh[id(value)] = resized(value, wanted)
                value = renewed[number] = known
            leaves.append(value)
        tree = pytree.tree_unflatten(leaves[: self._given], self._spec)
        if self._bound is None:
            return tree["args"], tree["kwargs"], renewed
        arguments = {**self._bound.arguments, **tree}
        for number in range(self._given, len(self.leaves)):
            if number in values:
                arguments[self.leaves[number].name] = values[number]
        bound = inspect.BoundArguments(
            self._bound.signature,
            # In the order of the signature, which positions follow from.
            {
                name: arguments[name]
                for name in self._bound.signature.parameters
                if name in arguments
            },
        )
        return bound.args, bound.kwargs, renewed


def with_parameters(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    values: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, but for parameters that get other values.

    Raises:
        TypeError: they do not fit.
    """
    called = function.forward if isinstance(function, torch.nn.Module) else function
    bound = inspect.signature(called).bind(*args, **kwargs)
    given = {**bound.arguments, **values}
    # In the order of the signature, which positions follow from.
    bound.arguments = {name: given[name] for name in bound.signature.parameters if name in given}
    return bound.args, bound.kwargs


def can_be_resized(value: Any) -> bool:
    """Whether :func:`resized` can change it: a strided tensor of no subclass of the user's."""
    return type(value) in _PLAIN and value.layout is torch.strided


def resized(tensor: torch.Tensor, sizes: Mapping[int, int]) -> torch.Tensor:
    """A tensor like it with other sizes, its values repeated; itself if it is of a special kind."""
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
            back = sorted(range(tensor.dim()), key=order.__getitem__)
            result = result.permute(order).contiguous().permute(back)
    return result.requires_grad_(tensor.requires_grad)


def _words(path: Sequence[Any]) -> str:
    first, *rest = path
    name = str(getattr(first, "key", first))
    return name + pytree.keystr(tuple(rest))


def _is_optional(path: Sequence[Any], parameters: Mapping[str, inspect.Parameter]) -> bool:
    parameter = parameters.get(str(getattr(path[0], "key", "")))
    return len(path) == 1 and parameter is not None and parameter.default is None
