"""Lists private names of torch in the engine outside of ``torch_internals``; status 1 if any.

A name is private if a part of its dotted path begins with an underscore, or if it is below
``torch.fx.experimental``, which promises nothing. Texts of programs that are written for users do
not count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ENGINE = Path(__file__).parents[1] / "engine" / "fullgraph_engine"
BORDER = "torch_internals"


def is_private(name: str) -> bool:
    head, *rest = name.split(".")
    if head != "torch" or rest[:1] == ["ops"]:
        return False
    private = any(part.startswith("_") and not part.endswith("__") for part in rest)
    return private or rest[:2] == ["fx", "experimental"]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            path = dotted(node)
            if path:
                yield node.lineno, path


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def main() -> int:
    found = sorted(
        {
            f"{path.relative_to(ENGINE.parents[1])}:{line}: {name} is private to torch: bind it in "
            f"{BORDER}/"
            for path in ENGINE.rglob("*.py")
            if BORDER not in path.parts
            for line, name in names(ast.parse(path.read_text("utf-8")))
            if is_private(name)
        }
    )
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
