"""Script that writes the static operator index, which is built without importing torch.

``python build.py --out FILE [--yaml FOLDER] [--packaged FOLDER]`` runs in a separate process of the
user's interpreter, so that it reads torchgen's YAML files while the engine imports torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Import the package ``fullgraph_engine`` that contains this file, and run
    ``operators.static``."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not _is_same_folder(entry, folder)]
    spec = importlib.util.spec_from_file_location("_fullgraph_boot", folder.parent / "boot.py")
    assert spec is not None and spec.loader is not None
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    boot._reorder_sys_path()
    boot._load_engine()
    static = importlib.import_module("fullgraph_engine.operators.static")
    return int(static.main(arguments))


def _is_same_folder(entry: str, folder: Path) -> bool:
    return bool(entry) and os.path.realpath(entry) == str(folder)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Skip the interpreter's shutdown: freeing thousands of objects takes time, and the file is
    # already written.
    os._exit(status)
