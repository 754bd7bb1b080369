"""The engine's processes: a warm parent, a process per module and a process per run.

The parent (``loop``) holds no user code. A *module process* executes the top-level statements of
one text and forks a *run* for each target and probe, or becomes it. Everything the user's code can
do to a process (loop, crash, exit, close descriptors, eat memory) happens in one of these two.
"""

from .loop import serve
from .orders import await_order

__all__ = ["await_order", "serve"]
