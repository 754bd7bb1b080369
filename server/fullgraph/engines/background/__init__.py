"""Background engines: processes that stay for later commands and editors, and serve an engine on a
socket.

``launch`` identifies the engine that a command needs and names its socket; ``folder`` protects the
sockets from other users; ``messages`` defines the protocol; ``service`` serves an engine to
clients; ``keeper`` is the process around it; ``connection`` and ``client`` are the client side.
"""

from fullgraph.engines.background.client import BackgroundEngine
from fullgraph.engines.background.folder import BackgroundUnavailable, private_folder
from fullgraph.engines.background.launch import EngineLaunch

__all__ = ["BackgroundEngine", "BackgroundUnavailable", "EngineLaunch", "private_folder"]
