"""Run a file's target once on real tensors, as people do with ``TORCH_LOGS`` set.

TORCH_LOGS=graph_breaks,guards python cold.py FILE CLASS SHAPE
"""

import runpy
import sys

import torch


def main() -> None:
    path, name, shape = sys.argv[1:]
    model = runpy.run_path(path)[name]()
    x = torch.randn([int(size) for size in shape.split("x")])
    torch._dynamo.maybe_mark_dynamic(x, 0)
    torch.compile(model, backend="eager")(x)


main()
