"""Fixed seeds for programs that show a finding only with some random numbers."""

from __future__ import annotations

import ast

from ..reduce.program import end_of_imports, format_tree

OTHER_SEEDS = (1, 2, 3)
"""Seeds with which a program is tested in addition to the usual seed 0."""

_CHOOSE = {"torch": "manual_seed", "random": "seed", "numpy": "random.seed"}
"""Function that sets the seed, for each module that draws random numbers."""


def seed_program(program: str, number: int) -> str:
    """Return the program with calls below its imports that seed all random generators."""
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
    return format_tree(tree)
