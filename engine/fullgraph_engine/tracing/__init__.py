"""Drive the real tracer once and write down everything it did.

The only place that drives Dynamo, through :mod:`..torch_internals`. What leaves this package
is a :class:`Recording`, plain data.
"""

from .absent_cuda import want_for as want_cuda_for
from .describe import describe_value
from .drive import call_eagerly, failure_of, fake_mode, tensor_mode, trace, warm
from .recording import Recording
from .tensors import ValueNeeded, devices, has_device, storage_bytes
from .triton_kernels import were_launched

__all__ = [
    "Recording",
    "ValueNeeded",
    "call_eagerly",
    "describe_value",
    "devices",
    "failure_of",
    "fake_mode",
    "has_device",
    "storage_bytes",
    "tensor_mode",
    "trace",
    "want_cuda_for",
    "warm",
    "were_launched",
]
