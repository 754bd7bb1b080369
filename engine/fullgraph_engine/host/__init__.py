"""Processes of the engine: a parent process, one process per module and one process per run.

The parent process (``loop``) has torch imported and never executes user code. A *module process*
executes the top-level statements of a file. It forks a *run* for each probe, or becomes the run
itself. User code can hang, crash, exit, close descriptors or exhaust memory only in these two kinds
of processes.
"""

from .loop import serve
from .orders import await_order

__all__ = ["await_order", "serve"]
