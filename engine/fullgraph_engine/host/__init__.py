"""The engine's processes: a warm parent, a fork per module and a fork per run.

The parent (``loop``) holds no user code. A *module process* executes the top-level statements of
one text and forks a *run* for each target and probe. Everything the user's code can do to a
process (loop, crash, exit, close descriptors, eat memory) happens in one of these two.
"""

from .loop import serve

__all__ = ["serve"]
