"""``workspace/executeCommand``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from fullgraph.lsp import commands

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WORKSPACE_EXECUTE_COMMAND


async def handle(server: Server, params: types.ExecuteCommandParams) -> Any:
    command = commands.BY_NAME.get(params.command)
    if command is None:
        raise JsonRpcInvalidParams(f"There is no command {params.command!r}.")
    return await command(server, list(params.arguments or ()))
