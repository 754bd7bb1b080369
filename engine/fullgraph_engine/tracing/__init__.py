"""Run a call under Dynamo once and record everything that Dynamo did.

Only this package drives Dynamo, through :mod:`..torch_internals`. Its result is a
:class:`Recording`, which is plain data.
"""

from .absent_cuda import request_for_source as want_cuda_for
from .describe import describe_value
from .drive import call_eagerly, failure_of, fake_mode, tensor_mode, trace, warm_up
from .recording import Recording
from .tensors import REAL_BYTES, ValueNeeded, device_types, has_device, storage_bytes
from .triton_kernels import was_kernel_launched

__all__ = [
    "REAL_BYTES",
    "Recording",
    "ValueNeeded",
    "call_eagerly",
    "describe_value",
    "device_types",
    "failure_of",
    "fake_mode",
    "has_device",
    "storage_bytes",
    "tensor_mode",
    "trace",
    "want_cuda_for",
    "warm_up",
    "was_kernel_launched",
]
