"""A server of the Model Context Protocol (MCP), with which a coding agent sees what torch.compile
does with the code that it writes."""

from __future__ import annotations
