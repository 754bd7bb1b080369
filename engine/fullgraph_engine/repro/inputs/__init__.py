"""Real data out of a run and into a script.

What tensors contain lies in files beside the script, named by their contents; the script has a
small function that loads them and knows torch and the standard library alone.
"""

from .loading import NAME, imports, loader, loads, needed, note
from .store import Store

__all__ = ["NAME", "Store", "imports", "loader", "loads", "needed", "note"]
