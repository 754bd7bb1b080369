"""Writes the part of the operator index that needs no running torch.

``python build.py --out FILE [--yaml FOLDER] [--packaged FOLDER]`` runs in a process of its own, in
the user's interpreter: the YAML is read and the file written while the engine imports torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Load the package as the engine does, from its own folder, and hand over to it."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not _same(entry, here)]
    spec = importlib.util.spec_from_file_location("_fullgraph_boot", here.parent / "boot.py")
    assert spec is not None and spec.loader is not None
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    boot._reorder_sys_path()
    boot._load_engine()
    static = importlib.import_module("fullgraph_engine.operators.static")
    return int(static.main(arguments))


def _same(entry: str, folder: Path) -> bool:
    return bool(entry) and os.path.realpath(entry) == str(folder)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # The file is written: taking thousands of objects apart one by one would only cost time.
    os._exit(status)
