"""Programs that show something only with some random numbers."""

from __future__ import annotations

import ast

from .reduction.program import formatted

OTHERS = (1, 2, 3)
"""Seeds that a program is tried with besides the one of the oracle, 0."""

_CHOOSE = {"torch": "torch.manual_seed({})", "random": "random.seed({})"}
"""By the module that has to be imported; what the oracle calls as well."""


def seeded(program: str, number: int) -> str:
    """The program with the seed of its random numbers chosen, right below its imports."""
    tree = ast.parse(program)
    imports = [node for node in tree.body if isinstance(node, ast.Import)]
    names = {
        alias.name.partition(".")[0] for node in imports for alias in node.names if not alias.asname
    }
    chosen = [text.format(number) for module, text in _CHOOSE.items() if module in names]
    below = 0
    while below < len(tree.body) and isinstance(tree.body[below], (ast.Import, ast.ImportFrom)):
        below += 1
    tree.body[below:below] = ast.parse("\n".join(chosen)).body
    return formatted(tree)
