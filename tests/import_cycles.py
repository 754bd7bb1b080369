"""Lists imports that go in a circle, or up from a lower layer to a higher one; status 1 if any.

Imports for types alone count as well.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "fullgraph_engine": ROOT / "engine" / "fullgraph_engine",
    "fullgraph": ROOT / "server" / "fullgraph",
}
LAYERS = (
    ("fullgraph_engine.protocol",),
    ("fullgraph.domain", "fullgraph.engines", "fullgraph.operators"),
    ("fullgraph.incremental",),
    ("fullgraph.results",),
    ("fullgraph.store",),
    ("fullgraph.fixes", "fullgraph.probes"),
    ("fullgraph.session", "fullgraph.render"),
    ("fullgraph.lsp",),
    ("fullgraph.cli",),
    ("fullgraph.mcp",),
    ("fullgraph.cli.commands",),
    ("fullgraph.testing",),
    ("fullgraph.__main__",),
)
"""The server from below: nothing imports what stands later, or beside it on the same line."""
BRIDGE = "fullgraph.testing"
BRIDGED = (
    "fullgraph_engine.programs.numerics",
    "fullgraph_engine.programs.observation",
    "fullgraph_engine.recording.watch",
)
"""The pytest plugin runs in the process of the user's code, so it may import these modules of the
engine.
"""


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for name, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((name, *parts))] = path
    return found


def imports(module: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules that one imports, anywhere in its text."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            wanted = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in wanted:
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and name != module:
                yield name


def circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                yield from visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            found = stack[stack.index(module) :]
            del stack[-len(found) :]
            if len(found) > 1:
                yield sorted(found)

    for module in graph:
        if module not in order:
            yield from visit(module)


def layer(module: str) -> tuple[int, str] | None:
    """Where a module stands in ``LAYERS``, with the innermost of its packages there."""
    found = [
        (number, package)
        for number, packages in enumerate(LAYERS)
        for package in packages
        if module == package or module.startswith(f"{package}.")
    ]
    return max(found, key=lambda one: len(one[1]), default=None)


def upward(graph: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Imports of what is not below."""
    for module, others in graph.items():
        here = layer(module)
        for other in sorted(others):
            there = layer(other)
            if here and there and there[1] != here[1] and there[0] >= here[0]:
                yield module, other
            if module.startswith("fullgraph_engine") != other.startswith("fullgraph_engine") and (
                not other.startswith("fullgraph_engine.protocol")
                and not (module.startswith(BRIDGE) and other in BRIDGED)
            ):
                yield module, other


def main() -> int:
    known = modules()
    graph = {module: set(imports(module, path, known)) for module, path in known.items()}
    found = [
        f"{module} imports {other}, which is no layer below it" for module, other in upward(graph)
    ]
    for circle in circles(graph):
        inside = set(circle)
        lines = [f"  {m} -> {', '.join(sorted(graph[m] & inside))}" for m in circle]
        found.append("\n".join(["These import each other:", *lines]))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
