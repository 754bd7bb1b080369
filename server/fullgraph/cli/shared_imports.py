"""Choose the modules that many checked files import, so that one process imports them for all."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from fullgraph_engine.protocol import SharedImports

_MOST_GROUPS = 3
"""Maximum number of groups of files in which the files of one import root are divided."""
_LEAST_FILES = 4
"""Minimum number of files for which a process imports modules."""
_LOADED = frozenset({"torch", *sys.stdlib_module_names})
"""Packages that the engine has imported anyway."""
_AFTER_IMPORTS = re.compile(r"^(?:@|(?:async|class|def|for|if|try|while|with)\b)", re.MULTILINE)
"""Pattern of a line that ends the imports at the beginning of a file."""


def choose_shared_imports(texts: Mapping[Path, str]) -> dict[Path, SharedImports]:
    """Return the modules to import in one process for several files, by file; files without enough
    common imports are left out.

    ``texts`` maps absolute paths to the texts of the files. A file imports all modules of its
    result before it does anything else, so that it behaves the same in a process that has imported
    them.
    """
    by_root: dict[Path, dict[Path, frozenset[str]]] = {}
    for path, text in texts.items():
        root = _import_root(path.parent)
        by_root.setdefault(root, {})[path] = frozenset(_imported_modules(path, text, root))
    chosen: dict[Path, SharedImports] = {}
    for root, waiting in by_root.items():
        for _ in range(_MOST_GROUPS):
            group, modules = _choose_group(waiting)
            if len(group) < _LEAST_FILES:
                break
            chosen.update(dict.fromkeys(group, SharedImports(modules, str(root))))
            for path in group:
                del waiting[path]
    return chosen


def _choose_group(files: Mapping[Path, frozenset[str]]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files that import the same modules, and these modules, so that as many imports as
    possible are shared.

    Modules are added in the order of their number of importers.
    """
    counts = Counter(name for modules in files.values() for name in modules)
    group, best = list(files), (list[Path](), tuple[str, ...]())
    modules = list[str]()
    for name in sorted(counts, key=lambda one: (-counts[one], one)):
        group = [path for path in group if name in files[path]]
        modules.append(name)
        if len(group) < _LEAST_FILES:
            break
        if len(group) * len(modules) > len(best[0]) * len(best[1]):
            best = group, tuple(modules)
    return best


def _imported_modules(path: Path, text: str, root: Path) -> Iterator[str]:
    """Yield the absolute names of the modules that a file imports before it does anything else,
    such as setting an environment variable that affects later imports."""
    end = _AFTER_IMPORTS.search(text)
    try:
        beginning = ast.parse(text[: end.start()] if end is not None else text).body
    except (SyntaxError, ValueError):
        return
    package = path.parent.relative_to(root).parts
    for statement in beginning:
        modules = list[str]()
        if isinstance(statement, ast.Import):
            modules = [one.name for one in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            if statement.level > len(package):
                return
            base = package[: len(package) - statement.level + 1] if statement.level else ()
            module = ".".join((*base, *filter(None, [statement.module])))
            below = (one.name for one in statement.names)
            modules = [module, *(f"{module}.{one}" for one in below if _is_file(root, module, one))]
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            return
        yield from (one for one in modules if one.partition(".")[0] not in _LOADED)


@functools.cache
def _is_file(root: Path, module: str, name: str) -> bool:
    """Whether ``name``, imported from a module below ``root``, is a file and not a variable."""
    folder = root.joinpath(*module.split("."))
    return name.isidentifier() and (
        (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    )


@functools.cache
def _import_root(folder: Path) -> Path:
    """Return the nearest folder without ``__init__.py``, in which Python searches for the file's
    own modules."""
    is_package = (folder / "__init__.py").is_file() and folder.parent != folder
    return _import_root(folder.parent) if is_package else folder
