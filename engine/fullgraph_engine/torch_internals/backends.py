"""Private names that concern backends of ``torch.compile``, Inductor and AOTAutograd."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from .binding import internal

_COMPILE_IN_FILE = "calls of `torch.compile` in the file, traced without their backend"

GET_COMPILER = internal("backends", _COMPILE_IN_FILE, "torch._dynamo.eval_frame", "get_compiler_fn")
INDUCTOR_WRAPPER = internal("backends", _COMPILE_IN_FILE, "torch", "_TorchCompileInductorWrapper")
BACKEND_WRAPPER = internal("backends", _COMPILE_IN_FILE, "torch", "_TorchCompileWrapper")
REGISTERED_BACKENDS = internal(
    "repros",
    "repros with backends that installed packages register",
    "torch._dynamo.backends.registry",
    "_BACKENDS",
)

INTERNALS = (GET_COMPILER, INDUCTOR_WRAPPER, BACKEND_WRAPPER, REGISTERED_BACKENDS)

# Excluded from INTERNALS: the name is needed only if Triton is installed.
HAS_TRITON = internal("backends", "Triton kernels in graphs", "torch.utils._triton", "has_triton")
# Excluded from INTERNALS: the lookup would import Inductor.
HEADER_FOLDERS = tuple(
    internal(
        "speed",
        "precompiled headers for the C++ compiler, shared by repros",
        "torch._inductor.codecache",
        name,
    )
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR")
)


def functorch_config() -> Any:
    """Return the module ``torch._functorch.config``, the settings of AOTAutograd."""
    import torch._functorch.config

    return torch._functorch.config


def inductor_config() -> Any:
    """Return the module ``torch._inductor.config``, the settings of Inductor.

    The first import takes about a second.
    """
    import torch._inductor.config

    return torch._inductor.config


def compile_in_this_process(folder: str) -> None:
    """Set the options of Inductor so that it compiles in this process, without its caches.

    Process pools do not survive forks, and a cache hit would skip the compilation. ``folder`` is
    where Inductor writes its files.
    """
    os.environ.update(
        TORCHINDUCTOR_COMPILE_THREADS="1",
        TORCHINDUCTOR_FX_GRAPH_CACHE="0",
        TORCHINDUCTOR_AUTOGRAD_CACHE="0",
        TORCHINDUCTOR_CACHE_DIR=folder,
    )
    inductor = inductor_config()
    inductor.compile_threads = 1
    inductor.fx_graph_cache = False
    functorch_config().enable_autograd_cache = False


def scratch_folder() -> str:
    """Return a new or existing temporary folder for the files that Inductor writes."""
    scratch = os.path.join(tempfile.gettempdir(), "compiled")  # noqa: PTH118
    os.makedirs(scratch, exist_ok=True)  # noqa: PTH103
    return scratch


def is_registered(name: str) -> bool:
    """Whether ``torch.compile(backend=name)`` knows the name; its package may still be broken."""
    from torch._dynamo.backends.registry import list_backends

    return name in list_backends(exclude_tags=())


def find_backend(name: str) -> Any:
    """Return the backend that ``torch.compile`` uses for a registered name.

    Calls ``torch._dynamo.backends.registry.lookup_backend``, which raises for an unknown name.
    """
    from torch._dynamo.backends.registry import lookup_backend

    return lookup_backend(name)


def cpp_compiler() -> str:
    """Return the path or name of the C++ compiler that Inductor would start.

    If no compiler is found, Inductor raises; the exception type depends on the release.
    """
    from torch._inductor import cpp_builder

    found: str = cpp_builder.get_cpp_compiler()
    return found
