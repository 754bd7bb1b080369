"""Run a file's target once on real tensors, as people do with ``TORCH_LOGS`` set.

TORCH_LOGS=graph_breaks,guards python cold.py FILE CLASS SHAPE

SHAPE is as of ``warm.py``.
"""

import runpy
import sys

import torch


def main() -> None:
    path, name, shape = sys.argv[1:]
    module = runpy.run_path(path)
    if shape == "-":
        model, inputs = module[name](*module["get_init_inputs"]()), module["get_inputs"]()
    else:
        model, inputs = module[name](), [torch.randn([int(size) for size in shape.split("x")])]
        torch._dynamo.maybe_mark_dynamic(inputs[0], 0)
    torch.compile(model, backend="eager")(*inputs)


main()
