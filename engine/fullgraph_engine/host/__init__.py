"""Processes of the engine: a main process, one process per analyzed file and one process per run.

The main process (``loop``) has torch imported and never executes user code. A *module process*
executes the top-level statements of a file. For each target and set of inputs, it forks a *run*, or
becomes the run itself. User code can hang, crash, exit, close descriptors or exhaust memory only in
these two kinds of processes.
"""

from .loop import serve
from .orders import await_order

__all__ = ["await_order", "serve"]
