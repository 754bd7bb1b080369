"""Trace a file's first target again and again in one warm process, without any of fullgraph.

The yardstick for how much fullgraph adds: prints the seconds of executing the text, building the
module on fake tensors, and tracing it with a backend that compiles nothing, one line a repetition.
Dynamo is reset before each.

Each line has two numbers. The first is of what Dynamo does by itself: behind a graph break, sizes
that were symbolic are constants. The second is of the trace that fullgraph makes: they stay
symbolic.

    python warm.py FILE CLASS SHAPE REPETITIONS

SHAPE is that of one float tensor, as in 4x16, or - if the file has ``get_init_inputs`` and
``get_inputs``. With these no size is symbolic at first.
"""

import sys
import time
import types
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch._dynamo  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402


def backend(module, inputs):
    return module.forward


def keeping_backend(module, inputs):
    values = [node.meta["example_value"] for node in module.graph.output_node().args[0]]
    symbolic = [
        (number, dim)
        for number, value in enumerate(values)
        for dim, size in enumerate(getattr(value, "shape", ()))
        if isinstance(size, torch.SymInt)
    ]

    def forward(*args):
        outputs = module.forward(*args)
        for number, dim in symbolic:
            torch._dynamo.maybe_mark_dynamic(outputs[number], dim)
        return outputs

    return forward


def main() -> None:
    path, name, shape, repetitions = sys.argv[1:]
    sizes = [int(size) for size in shape.split("x")] if shape != "-" else []
    torch.set_num_threads(1)
    with open(path) as file:  # noqa: PTH123
        text = file.read()
    for _ in range(int(repetitions) + 1):
        seconds = (once(path, text, name, sizes, one) for one in (backend, keeping_backend))
        print("SECONDS", *seconds, flush=True)


def once(path, text, name, sizes, backend):
    torch._dynamo.reset()
    started = time.perf_counter()
    module = types.ModuleType("traced")
    sys.modules["traced"] = module
    exec(compile(text, path, "exec"), module.__dict__)
    with FakeTensorMode(allow_non_fake_inputs=True):
        if sizes:
            model, inputs = getattr(module, name)(), [torch.randn(sizes)]
            torch._dynamo.maybe_mark_dynamic(inputs[0], 0)
        else:
            model, inputs = getattr(module, name)(*module.get_init_inputs()), module.get_inputs()
        torch.compile(model, backend=backend)(*inputs)
    return time.perf_counter() - started


main()
