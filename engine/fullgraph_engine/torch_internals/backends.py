"""Backends: what ``torch.compile`` makes of a name, and what Inductor and AOTAutograd keep."""

from __future__ import annotations

from typing import Any

from .binding import internal

_FILE = "`torch.compile` in the file, without its backend"

GET_COMPILER = internal("backends", _FILE, "torch._dynamo.eval_frame", "get_compiler_fn")
INDUCTOR_WRAPPER = internal("backends", _FILE, "torch", "_TorchCompileInductorWrapper")
BACKEND_WRAPPER = internal("backends", _FILE, "torch", "_TorchCompileWrapper")
REGISTERED = internal(
    "repros",
    "backends that packages announce, in repros",
    "torch._dynamo.backends.registry",
    "_BACKENDS",
)

INTERNALS = (GET_COMPILER, INDUCTOR_WRAPPER, BACKEND_WRAPPER, REGISTERED)

# Not among them: it is where there is Triton.
HAS_TRITON = internal(
    "backends", "kernels of Triton in graphs", "torch.utils._triton", "has_triton"
)
# Not among them: looking it up would import Inductor.
HEADER_FOLDERS = tuple(
    internal("speed", "compiled headers that repros share", "torch._inductor.codecache", name)
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR")
)


def functorch_config() -> Any:
    """Settings of AOTAutograd."""
    import torch._functorch.config

    return torch._functorch.config


def inductor_config() -> Any:
    """Settings of Inductor, whose import takes a second."""
    import torch._inductor.config

    return torch._inductor.config


def is_registered(name: str) -> bool:
    """Whether ``torch.compile(backend=name)`` knows the name; its package may still be broken."""
    from torch._dynamo.backends.registry import list_backends

    return name in list_backends(exclude_tags=())


def lookup(name: str) -> Any:
    """Return the backend that ``torch.compile(backend=name)`` uses."""
    from torch._dynamo.backends.registry import lookup_backend

    return lookup_backend(name)


def cpp_compiler() -> str:
    """The C++ compiler that Inductor would start. Raises what depends on the release."""
    from torch._inductor import cpp_builder

    found: str = cpp_builder.get_cpp_compiler()
    return found
