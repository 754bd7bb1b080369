"""``workspace/executeCommand``: run one of the commands of :mod:`fullgraph.lsp.commands`."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from fullgraph.lsp import commands
from fullgraph.lsp.context import ServerContext

METHOD = types.WORKSPACE_EXECUTE_COMMAND


async def handle(context: ServerContext, params: types.ExecuteCommandParams) -> Any:
    command = commands.COMMANDS_BY_NAME.get(params.command)
    if command is None:
        raise JsonRpcInvalidParams(f"There is no command {params.command!r}.")
    return await command(context, list(params.arguments or ()))
