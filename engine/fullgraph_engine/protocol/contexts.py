"""Keywords of probe comments (example inputs of a call) for modes, settings and tensor properties;
recordings use them too."""

from __future__ import annotations

from collections.abc import Mapping

AUTOCAST_DTYPES: Mapping[str, str] = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
"""Dtypes that autocast accepts: the short name in a probe comment, and the name in torch."""

STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)
"""Names of stances that ``torch.compiler.set_stance`` accepts."""

WORDS: Mapping[str, str] = {
    "no_grad": "the call is made in `torch.no_grad()`",
    "inference_mode": "the call is made in `torch.inference_mode()`",
    "eval": "the module is in evaluation mode",
    "train": "the module is in training mode",
}
"""Keywords of a probe comment that stand alone, each with its meaning for the call."""

KEYS: Mapping[str, str] = {
    "autocast": "the call is made in `torch.autocast` of this dtype; `bf16@cuda` names the device",
    "stance": "the call is made under this stance of `torch.compiler.set_stance`",
}
"""Keywords of a probe comment that take a value, each with its meaning for the call."""

CONFIG = "config."
"""Prefix of a keyword that changes a setting of ``torch._dynamo.config``."""

GRADS: Mapping[str, str] = {
    "requires_grad": "the tensor requires grad, as a leaf",
    "grad_fn": "the tensor requires grad, as the result of an operation",
}
"""Keywords after a tensor in a probe comment that make it require grad, with their meaning."""

MARKS: Mapping[str, str] = {
    "mark_dynamic": "dimensions marked with `torch._dynamo.mark_dynamic`",
    "maybe_mark_dynamic": "dimensions marked with `torch._dynamo.maybe_mark_dynamic`",
    "mark_unbacked": "dimensions marked with `torch._dynamo.decorators.mark_unbacked`",
    "mark_static": "dimensions marked with `torch._dynamo.mark_static`",
}
"""Keywords after a tensor in a probe comment that mark dimensions, with the torch functions that do
it."""
