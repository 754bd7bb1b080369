"""Trace a file's first target again and again in one warm process, without any of fullgraph.

The yardstick for how much fullgraph adds: prints the seconds of executing the text, building the
module on fake tensors, and tracing it with a backend that compiles nothing, one line a repetition.
Dynamo is reset before each.

    python warm.py FILE CLASS SHAPE REPETITIONS
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


def main() -> None:
    path, name, shape, repetitions = sys.argv[1:]
    sizes = [int(size) for size in shape.split("x")]
    torch.set_num_threads(1)
    with open(path) as file:  # noqa: PTH123
        text = file.read()
    for _ in range(int(repetitions) + 1):
        torch._dynamo.reset()
        started = time.perf_counter()
        module = types.ModuleType("traced")
        sys.modules["traced"] = module
        exec(compile(text, path, "exec"), module.__dict__)
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = getattr(module, name)()
            x = torch.randn(sizes)
            torch._dynamo.maybe_mark_dynamic(x, 0)
            torch.compile(model, backend=backend)(x)
        print(f"SECONDS {time.perf_counter() - started}", flush=True)


main()
