"""Choose the modules that many checked files import, so that one process imports them for all."""

from __future__ import annotations

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
_IMPORT = re.compile(
    r"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^#\n;]+)|import[ \t]+([^#\n;]+))",
    re.MULTILINE,
)
"""Pattern of an import without indentation, which every execution of the file reaches."""
_COMMENT = re.compile(r"#.*")


def choose_shared_imports(texts: Mapping[Path, str]) -> dict[Path, SharedImports]:
    """Return the modules to import in one process for several files, by file; files without enough
    common imports are left out.

    ``texts`` maps absolute paths to the texts of the files. A file imports all modules of its
    result at its beginning, so that it behaves the same in a process that has imported them.
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
    """Yield the absolute names of the modules that a file imports at its top level."""
    package = path.parent.relative_to(root).parts
    for match in _IMPORT.finditer(text):
        origin, names, plain = match.groups()
        if plain is not None:
            modules = [one.split(" as ")[0].strip() for one in plain.split(",")]
        else:
            level = len(origin) - len(origin.lstrip("."))
            base = package[: len(package) - level + 1] if level else ()
            if level > len(package):
                continue
            module = ".".join((*base, *filter(None, origin.lstrip(".").split("."))))
            listed = _COMMENT.sub("", names).strip("() \t\n").split(",")
            below = (one.split(" as ")[0].strip() for one in listed)
            modules = [module, *(f"{module}.{one}" for one in below if _is_file(root, module, one))]
        for module in modules:
            if module and module.partition(".")[0] not in _LOADED:
                yield module


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
