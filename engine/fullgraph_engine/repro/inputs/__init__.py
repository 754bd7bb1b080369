"""Real data out of a run and into a script, and inputs for functions whose annotations say them.

What tensors contain lies in files beside the script, named by their contents; the script has a
small function that loads them and knows torch and the standard library alone.
"""

from .annotated import arguments
from .loading import NAME, imports, loader, loads, needed, note
from .store import Store

__all__ = ["NAME", "Store", "arguments", "imports", "loader", "loads", "needed", "note"]
