"""Hide GPUs from all processes of the engine.

The engine executes code at every pause in typing. On a GPU, each process would take hundreds of MiB
of memory from the user's training jobs, and a CUDA context does not survive a fork. Tracing uses
fake tensors, which do not need a GPU, so every process behaves as on a machine without one.
"""

from __future__ import annotations

import os

_HIDING_VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    # Torch then reads these variables instead of querying the driver; after a driver query the
    # process must not fork.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}

_MISSING_GPU_ERRORS = (
    "Torch not compiled with CUDA enabled",
    "PyTorch is not linked with support for cuda",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "CUDA error: ",
    "no CUDA-capable device is detected",
    "Cannot initialize CUDA",
    # Raised in a fork whose parent queried the driver without finding a GPU.
    "Cannot re-initialize CUDA in forked subprocess",
    "with arguments from the 'CUDA' backend",
    "CUDA driver initialization failed",
    "CUDA driver version is insufficient",
    "Attempting to deserialize object on a CUDA device",
    "from cudaGetDeviceCount()",
    "torch.cuda.Stream requires CUDA support",
    "Tried to instantiate dummy base class",
    # Triton's launcher raises this error.
    "0 active drivers",
)
"""Fragments of the errors that torch and Triton raise without a GPU, or when built without GPU
support.
"""


def hide_gpus() -> None:
    """Hide all GPUs from this process and its children; call it before torch looks for one."""
    os.environ.update(_HIDING_VARIABLES)


def is_missing_gpu_error(message: str) -> bool:
    """Whether this exception message is about a missing GPU."""
    return any(part in message for part in _MISSING_GPU_ERRORS)
