"""Words that probe comments and recordings have for modes, settings and tensors."""

from __future__ import annotations

from collections.abc import Mapping

AUTOCAST_DTYPES: Mapping[str, str] = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
"""Names of the dtypes that autocast takes, in notation and in torch."""

STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)
"""Names that ``torch.compiler.set_stance`` accepts."""

WORDS: Mapping[str, str] = {
    "no_grad": "the call is made in `torch.no_grad()`",
    "inference_mode": "the call is made in `torch.inference_mode()`",
    "eval": "the module is in evaluation mode",
    "train": "the module is in training mode",
}
"""Words of a context without a value, with their meaning."""

KEYS: Mapping[str, str] = {
    "autocast": "the call is made in `torch.autocast` of this dtype; `bf16@cuda` names the device",
    "stance": "the call is made under this stance of `torch.compiler.set_stance`",
}
"""Words of a context with a value, with their meaning."""

CONFIG = "config."
"""Prefix of the settings of ``torch._dynamo.config``."""

GRADS: Mapping[str, str] = {
    "requires_grad": "the tensor requires grad, as a leaf",
    "grad_fn": "the tensor requires grad, as the result of an operation",
}
"""Words behind a tensor that requires grad, with their meaning."""

MARKS: Mapping[str, str] = {
    "mark_dynamic": "dimensions marked with `torch._dynamo.mark_dynamic`",
    "maybe_mark_dynamic": "dimensions marked with `torch._dynamo.maybe_mark_dynamic`",
    "mark_unbacked": "dimensions marked with `torch._dynamo.decorators.mark_unbacked`",
    "mark_static": "dimensions marked with `torch._dynamo.mark_static`",
}
"""Words behind a tensor with marked dimensions, with the functions that mark them."""
