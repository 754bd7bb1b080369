"""Load the recorder into every Python process that ``fullgraph record`` starts, directly or
indirectly.

The folder of this file is the first entry of ``PYTHONPATH``, so ``site`` imports it when an
interpreter starts. It removes that folder from ``sys.path`` and runs the ``sitecustomize`` that it
shadows. The recorder itself is loaded only when the program imports torch.
"""
# This file must work in any Python 3 and keeps imports minimal.
# ruff: noqa: PTH100, PTH118, PTH120, UP004

from __future__ import annotations

import os
import sys
from importlib import import_module, machinery, util

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MODULES = "torch.nn.modules.module"
_HERE = os.path.dirname(os.path.abspath(__file__))


class _TorchImportHook(object):
    """An import hook that starts the recorder once ``torch.nn.Module`` is defined."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _MODULES:
            return None
        sys.meta_path.remove(self)
        spec = util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_and_record(module: Any) -> None:
                execute(module)
                try:
                    _load_recorder().begin_recording(module.Module)
                except Exception as error:  # the program continues without a recording
                    words = "fullgraph record: %s: %s\n" % (type(error).__name__, error)  # noqa: UP031
                    sys.stderr.write(words)

            spec.loader.exec_module = exec_and_record  # type: ignore[method-assign]
        return spec


def _load_recorder() -> Any:
    """Load the engine's package from its folder without adding the folder to ``sys.path``."""
    name = "fullgraph_engine"
    if name not in sys.modules:
        folder = os.path.dirname(os.path.dirname(_HERE))
        file = os.path.join(folder, "__init__.py")
        spec = util.spec_from_file_location(name, file, submodule_search_locations=[folder])
        package = util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[name] = package
        spec.loader.exec_module(package)  # type: ignore[union-attr]
    return import_module(name + ".recording.watch")


def _run_the_next() -> None:
    """Run the ``sitecustomize`` module that this file shadows."""
    spec = machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
if sys.version_info >= (3, 10) and "FULLGRAPH_RECORD" in os.environ:
    sys.meta_path.insert(0, _TorchImportHook())
_run_the_next()
