"""Serve coding agents over the Model Context Protocol (MCP), on standard input and output.

An agent can check, explain, fix and verify code with it. Needs `pip install "fullgraph[mcp]"`.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from fullgraph.cli import options
from fullgraph.cli.exit_status import CLEAN, UNABLE
from fullgraph.cli.options import Parser
from fullgraph.cli.setting_options import add_settings, given_settings


def configure(parser: Parser) -> None:
    options.add_flag(parser, "--instructions", help="Print the instructions for models, and exit.")
    add_settings(parser, "mcp")


def run(arguments: Namespace) -> int:
    import asyncio

    from fullgraph.cli.terminal import write
    from fullgraph.mcp.instructions import INSTRUCTIONS

    if arguments.instructions:
        write(sys.stdout, INSTRUCTIONS)
        return CLEAN
    try:
        from fullgraph.mcp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
            raise
        write(
            sys.stderr,
            "error: `fullgraph mcp` needs the MCP SDK, which is not installed; run "
            '`pip install "fullgraph[mcp]"`.\n',
        )
        return UNABLE
    asyncio.run(serve(given_settings(arguments)))
    return CLEAN
