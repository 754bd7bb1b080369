"""GPUs, which no process of the engine uses.

Code is executed at every pause in typing: on a GPU each process would take hundreds of MiB of its
memory from what the user trains there, and a CUDA context survives no fork. What is traced is fake
and needs none; so all processes are told that there are none, as on a machine without.
"""

from __future__ import annotations

import os

_NONE = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    # torch then reads these variables instead of asking the driver, after which no fork may.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}

_MISSED = (
    "Torch not compiled with CUDA enabled",
    "PyTorch is not linked with support for cuda",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "CUDA error: ",
    "no CUDA-capable device is detected",
    "Cannot initialize CUDA",
    # In a fork of a process that has asked the driver, and got none.
    "Cannot re-initialize CUDA in forked subprocess",
    "with arguments from the 'CUDA' backend",
    "CUDA driver initialization failed",
    "CUDA driver version is insufficient",
    "Attempting to deserialize object on a CUDA device",
    "from cudaGetDeviceCount()",
    "torch.cuda.Stream requires CUDA support",
    "Tried to instantiate dummy base class",
    # Triton's launcher.
    "0 active drivers",
)
"""Parts of what torch and Triton say where there is none, or where they were built for none."""


def hide() -> None:
    """Have this process, and those that it starts, find no GPU. Before torch looks for one."""
    os.environ.update(_NONE)


def are_missed(message: str) -> bool:
    """Whether an exception that says this was raised for want of a GPU."""
    return any(part in message for part in _MISSED)
