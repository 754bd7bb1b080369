"""Engines that stay for later commands and editors: a process of ours owns one, and serves it on a
socket.

``launch`` says which engine a command needs, and what the socket of its process is called;
``folder`` keeps the sockets from other users; ``messages`` is what crosses them; ``service`` serves
an engine to clients, ``keeper`` is the life of the process around it; ``connection`` and ``client``
are the other side.
"""

from fullgraph.engines.background.client import BackgroundEngine
from fullgraph.engines.background.folder import BackgroundUnavailable, private_folder
from fullgraph.engines.background.launch import EngineLaunch

__all__ = ["BackgroundEngine", "BackgroundUnavailable", "EngineLaunch", "private_folder"]
