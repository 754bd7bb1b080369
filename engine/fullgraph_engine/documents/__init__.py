"""What a run did, written for people to read: graphs, bytecode, events of sizes."""

from .sink import Commission

__all__ = ["Commission"]
