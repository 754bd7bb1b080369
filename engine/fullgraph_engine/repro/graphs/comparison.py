"""Part of a script that compares compiled results with a run in double precision.

A fixed tolerance would either hide small errors or report rounding as an error. The script measures
how much further the compiled results are from double precision than the eager results are. It also
measures how rounding of the inputs changes the results.
"""

from __future__ import annotations

from ..candidate import Backend
from ..verify.check import ScriptCheck

NAME = "compare"
"""Name of the function in the script that compares compiled results with eager ones."""

_IMPORTS = (
    "from contextlib import nullcontext",
    "from copy import deepcopy",
    "from torch.utils._pytree import tree_leaves, tree_map",
)

_TEXT = '''\
def wide(x):
    """In double precision, whatever it is."""
    if torch.is_tensor(x) and (x.is_floating_point() or x.is_complex()):
        return x.to(torch.promote_types(x.dtype, torch.float64))
    return x


class Double(torch.overrides.TorchFunctionMode):
    """Has everything computed in double precision."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return tree_map(wide, function(*args, **(kwargs or {})))


def results(function, inputs, double=False, shaken=False):
    """What a call gives, the gradients, and what it leaves of its inputs."""
    torch.manual_seed(0)
    leaves = deepcopy([x.detach() if torch.is_tensor(x) else x for x in inputs])
    if shaken:
        leaves = [wide(x) * (1 + 1e-7 * noise(x)) if rounding(x) else x for x in leaves]
    leaves = [wide(x) for x in leaves] if double else leaves
    given = list(leaves)
    for n, x in enumerate(inputs):
        if torch.is_tensor(x):
            leaves[n].requires_grad_(x.requires_grad)
            given[n] = leaves[n] if x.is_leaf else leaves[n].clone()
    with Double() if double else nullcontext():
        outputs = tree_leaves(function(*given))
    outputs = [torch.as_tensor(x) for x in outputs if x is not None]
    ends = [x for x in outputs if x.requires_grad]
    starts = [x for x in leaves if torch.is_tensor(x) and x.requires_grad]
    slopes = [torch.linspace(1, 2, x.numel()).to(x).reshape(x.shape) for x in ends]
    gradients = ()
    if ends and starts:
        gradients = torch.autograd.grad(ends, starts, slopes, materialize_grads=True)
    given = [x for x in given if torch.is_tensor(x)]
    return {"output": outputs, "gradient": gradients, "input": given}


def rounding(x):
    """The relative error of its dtype."""
    is_exact = not torch.is_tensor(x) or not (x.is_floating_point() or x.is_complex())
    return 0 if is_exact else torch.finfo(x.dtype).eps


def noise(x):
    return torch.randn(x.shape, device=x.device)


def size(x):
    return wide(x.detach()).where(x.isfinite(), 0).norm() / max(x.numel(), 1) ** 0.5


def difference(exact, near, plain, fast, slack, least):
    """How `fast` is further from `exact` than `plain` and rounding explain, in words."""
    instead = f"{fast} instead of {plain}"
    if (plain.dtype, plain.shape) != (fast.dtype, fast.shape):
        return f"dtype or shape: {instead}"
    if not rounding(plain):
        return instead if OTHERS else ""
    if plain.isfinite().equal(exact.isfinite()) and not plain.isfinite().equal(fast.isfinite()):
        return instead
    off, usual = size(fast - exact), size(plain - exact)
    # How much of an error in the last bit of the inputs arrives here.
    usual = max(usual, size(near - exact) * rounding(plain) / 1e-7)
    if off <= 3 * usual + slack * rounding(plain) * max(least, size(exact)):
        return ""
    return f"off by {off:.2g}, without the backend by {usual:.2g}: {instead}"


wrong = []


def compare(function, *inputs, **options):
    """Note which results are wrong when the function is compiled."""
    plain = results(function, inputs)
EXACT
    fast = results(torch.compile(function, backend=BACKEND, **options), inputs)
    for kind in plain:
        # A gradient may be nothing but what rounding leaves of larger ones.
        least = max(map(size, exact[kind]), default=0) if kind == "gradient" else 0
        for n, values in enumerate(zip(exact[kind], near[kind], plain[kind], fast[kind])):
            words = difference(*values, slack, least)
            wrong.extend([f"{kind} {n}: {words}"] if words else [])
'''

_EXACT = """\
    try:
        exact = results(function, inputs, double=True)
        near, slack = results(function, inputs, double=True, shaken=True), 4
    except Exception:  # it only works in the precision that it has
        exact, near, slack = plain, plain, 1000"""

_RANDOM = """\
    exact, near, slack = plain, plain, 1000  # in double precision it draws others"""

# Compare integers and booleans only if the eager result equals the result in double precision.
# Otherwise, as in a rounded comparison, the result depends on the last bit of a float.
_OTHERS = "exact.equal(plain) and not plain.equal(fast)"


def comparison_check(
    backend: Backend,
    before: tuple[str, ...],
    imports: tuple[str, ...],
    *,
    only_floating: bool,
    is_random: bool,
) -> ScriptCheck:
    """Return the check that detects wrong results in a script.

    ``before`` are lines that define the backend, ``imports`` their imports. ``only_floating``:
    compare only floating-point results. ``is_random``: the graph draws random numbers.
    """
    text = _TEXT.replace("BACKEND", backend.spelled)
    text = text.replace("OTHERS", "False" if only_floating else _OTHERS)
    text = text.replace("EXACT", _RANDOM if is_random else _EXACT)
    imports = (*_IMPORTS, *imports)
    if is_random and backend.name == "inductor":
        # Inductor uses the same random numbers as eager mode only with this setting.
        imports = ("import torch._inductor.config", *imports)
        before = (*before, "torch._inductor.config.fallback_random = True")
    what = f"results of {backend.name} that rounding does not explain"
    lines = (*before, "", *text.rstrip("\n").split("\n"), "")
    return ScriptCheck(what, "wrong", before=lines, imports=imports)
