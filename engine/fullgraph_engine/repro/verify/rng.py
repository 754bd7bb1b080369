"""Programs that show something only with some random numbers."""

from __future__ import annotations

import ast

from ..reduce.program import end_of_imports, formatted

OTHERS = (1, 2, 3)
"""Seeds that a program is tried with besides the one of the oracle, 0."""

_CHOOSE = {"torch": "manual_seed", "random": "seed", "numpy": "random.seed"}
"""What chooses the random numbers of a module; see ``targets.chance``."""


def seeded(program: str, number: int) -> str:
    """The program with the seed of its random numbers chosen, right below its imports."""
    tree = ast.parse(program)
    below = end_of_imports(tree)
    names = dict(
        (alias.name, alias.asname) if alias.asname else (alias.name.partition(".")[0],) * 2
        for node in tree.body[:below]
        if isinstance(node, ast.Import)
        for alias in node.names
    )
    chosen = [
        f"{names[module]}.{function}({number})"
        for module, function in _CHOOSE.items()
        if module in names
    ]
    tree.body[below:below] = ast.parse("\n".join(chosen)).body
    return formatted(tree)
