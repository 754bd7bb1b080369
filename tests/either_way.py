"""Lists assertions of tests that hold either way, ``assert a or b``; status 1 if any.

A test states which of them happens. Where that depends on a version or a platform, it branches on
it. What an operand of a comparison is by default, ``(a or b) == c``, does not count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
NOT_OURS = (TESTS / "fixtures", TESTS / "clients" / "hosts")
"""Programs that are analyzed, and editors that were installed."""


def either_way(condition: ast.expr) -> bool:
    """Whether a condition, or a part of it that has to hold, is an alternative."""
    if isinstance(condition, ast.BoolOp):
        return isinstance(condition.op, ast.Or) or any(map(either_way, condition.values))
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        denied = condition.operand
        return isinstance(denied, ast.BoolOp) and isinstance(denied.op, ast.And)
    return isinstance(condition, ast.NamedExpr) and either_way(condition.value)


def found() -> Iterator[str]:
    for path in sorted(TESTS.rglob("*.py")):
        if any(folder in path.parents for folder in NOT_OURS):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Assert) and either_way(node.test):
                place = f"{path.relative_to(TESTS.parent)}:{node.lineno}"
                yield f"{place}: this holds either way: state which happens"


def main() -> int:
    lines = list(found())
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
