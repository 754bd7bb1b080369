"""Run one function or module class of a file under plain torch.compile, and report what it did.

``python plain_case.py FILE TARGET INIT INPUTS OUT``, where INIT and INPUTS are the arguments in the
notation of probes, such as ``f32[4, 16], n=3``. OUT receives the counts as JSON; OUT with the
suffix ``.pt`` receives the results of the eager calls. Uses nothing of fullgraph.
"""

from __future__ import annotations

import importlib.util
import json
import random
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import torch
import torch._dynamo
from torch.utils import _pytree

_CALLS = 3
"""Number of calls of the target in eager mode, and compiled."""
DTYPES = {
    **{f"f{bits}": getattr(torch, f"float{bits}") for bits in (16, 32, 64)},
    **{f"i{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
    "bf16": torch.bfloat16,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
}


def make_tensor(dtype: str, *sizes: int) -> torch.Tensor:
    """Return a tensor with random values of a dtype in the notation of probes."""
    kind = DTYPES[dtype]
    if kind.is_floating_point or kind.is_complex:
        return torch.randn(*sizes, dtype=kind) if sizes else torch.randn((), dtype=kind)
    return torch.randint(0, 2, sizes).to(kind)


def read_arguments(text: str, names: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments that a text in the notation of probes means."""
    code = re.sub(r"\b(bf16|bool|[fiuc]\d+)\[([\d, ]*)\]", r"make_tensor('\1', \2)", text)
    known = {"torch": torch, "SimpleNamespace": SimpleNamespace}
    scope = {**known, **names, "make_tensor": make_tensor, "call": lambda *a, **k: (a, k)}
    found: tuple[tuple[Any, ...], dict[str, Any]] = eval(f"call({code})", scope)
    return found


def find_results(target: Any, inputs: str, names: dict[str, Any]) -> Any:
    """Call a function or module with its inputs, with the same random numbers each time."""
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(1)
    args, kwargs = read_arguments(inputs, names)
    return target(*args, **kwargs)


def main(file: str, name: str, init: str, inputs: str, out: str) -> None:
    warnings.simplefilter("ignore")
    sys.argv[:] = [file]
    spec = importlib.util.spec_from_file_location("case", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["case"] = module
    spec.loader.exec_module(module)
    target: Any = module
    for part in name.split("."):
        target = getattr(target, part)

    def make_target() -> Any:
        torch.manual_seed(0)
        args, kwargs = read_arguments(init, vars(module))
        return target(*args, **kwargs) if isinstance(target, type) else target

    # A later call recompiles if an earlier one changed what its guards compare.
    called = make_target()
    eager = [find_results(called, inputs, vars(module)) for _ in range(_CALLS)]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(make_target(), backend="eager")
    results = [find_results(compiled, inputs, vars(module)) for _ in range(_CALLS)]
    same = same_results(eager, results)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch.save(result_leaves(eager), f"{out}.pt")
    Path(out).write_text(json.dumps({"graphs": graphs, "same": same}))


def result_leaves(results: Any) -> list[Any]:
    """Return the tensors and plain values in results, also in attributes of objects."""
    found = []
    for leaf in _pytree.tree_leaves(results):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf.detach())
        elif hasattr(leaf, "__dict__") and not isinstance(leaf, type):
            found += result_leaves(list(vars(leaf).values()))
        else:
            plain = isinstance(leaf, (int, float))
            found.append(leaf if plain else re.sub(r" at 0x\w+", "", repr(leaf)))
    return found


def same_results(one: Any, other: Any) -> bool:
    """Whether two results have equal leaves, tensors up to rounding."""
    leaves, others = result_leaves(one), result_leaves(other)
    if len(leaves) != len(others):
        return False
    for leaf, found in zip(leaves, others, strict=True):
        if isinstance(leaf, str) or isinstance(found, str):
            if leaf != found:
                return False
            continue
        try:
            torch.testing.assert_close(leaf, found, equal_nan=True)
        except AssertionError:
            return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
