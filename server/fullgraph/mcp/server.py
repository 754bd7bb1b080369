"""The tools of the server, as the MCP SDK offers them to clients; no other module needs the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from fullgraph import __version__
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import CheckAnswer, ExplainAnswer, GraphAnswer
from fullgraph.mcp.instructions import INSTRUCTIONS
from fullgraph.mcp.paging import DEFAULT_BUDGET, Paging, to_structure
from fullgraph.mcp.refusal import Refused
from fullgraph.mcp.subjects import read_subject
from fullgraph.mcp.tools.check import CheckPart, check
from fullgraph.mcp.tools.explain import explain, explain_only_code
from fullgraph.mcp.tools.graph import graph
from fullgraph_engine.protocol.documents import DocumentKind

File = Annotated[str, Field(description="Path of a Python file or notebook.")]
Text = Annotated[
    str | None,
    Field(description="Unsaved text of the file, to analyze instead of the file on disk."),
]
Version = Annotated[
    str,
    Field(description="Hash from an earlier answer; the call is refused if the text differs."),
]
Budget = Annotated[int, Field(description="Maximum size of the answer in tokens.", ge=100)]
Cursor = Annotated[str, Field(description="Cursor of the answer before, for the rest of it.")]
Target = Annotated[str, Field(description="Name of one function or class; empty for all.")]
Line = Annotated[int, Field(description="Line, counted from 1; 0 for all.", ge=0)]

Progress = Context[Any, Any]
_READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_T = TypeVar("_T")


def make_server() -> MCPServer[Any]:
    """Return the MCP server with all tools; its engines stop when a session ends."""
    analyzer = Analyzer()

    @contextlib.asynccontextmanager
    async def lifespan(server: MCPServer[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            # The cancellation of the session must not interrupt the end of the engines.
            await asyncio.shield(asyncio.ensure_future(analyzer.close()))

    server: MCPServer[Any] = MCPServer(
        "fullgraph",
        title="fullgraph",
        description="What torch.compile does with Python code: graph breaks, recompiles, guards.",
        instructions=INSTRUCTIONS,
        version=__version__,
        lifespan=lifespan,
        log_level="WARNING",
    )
    add_reading_tools(server, analyzer)
    return server


def add_reading_tools(server: MCPServer[Any], analyzer: Analyzer) -> None:
    """Add the tools that describe a text: ``check``, ``explain`` and ``graph``."""

    @server.tool(name="check", annotations=_READ_ONLY)
    async def check_tool(
        context: Progress,
        file: File,
        text: Text = None,
        hash: Version = "",
        target: Target = "",
        line: Line = 0,
        recompiles: Annotated[
            bool, Field(description="Also predict recompiles with other sizes and values (slow).")
        ] = False,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, CheckAnswer]:
        """List the findings of a file: graph breaks, recompiles, failing operators. The one to
        change first is at the top; findings with one cause are one item.
        """
        async with _answering(context) as show_progress:
            subject = await asyncio.to_thread(read_subject, file, text, hash)
            paging = Paging(subject.hash, budget, cursor)
            part = CheckPart(target, line)
            return _result(
                await check(analyzer, subject, part, recompiles or None, paging, show_progress)
            )

    @server.tool(name="explain", annotations=_READ_ONLY)
    async def explain_tool(
        context: Progress,
        finding: Annotated[
            str, Field(description="Id of a finding of the file, or a code such as GB0170.")
        ],
        file: Annotated[
            str, Field(description="Path of the file; empty for the documentation of a code.")
        ] = "",
        text: Text = None,
        hash: Version = "",
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, ExplainAnswer]:
        """Explain one finding: Dynamo's reason, the user's stack, and the values and guards of its
        lines. Without a file, print the documentation of a finding code.
        """
        async with _answering(context) as show_progress:
            if not file:
                return _result(explain_only_code(finding))
            subject = await asyncio.to_thread(read_subject, file, text, hash)
            paging = Paging(subject.hash, budget, cursor)
            return _result(await explain(analyzer, subject, finding, paging, show_progress))

    @server.tool(name="graph", annotations=_READ_ONLY)
    async def graph_tool(
        context: Progress,
        file: File,
        kind: Annotated[
            DocumentKind,
            Field(
                description="`graph`: captured code with operators and shapes; `guards`; "
                "`bytecode`; `events`: history of symbolic shapes."
            ),
        ] = "graph",
        text: Text = None,
        hash: Version = "",
        target: Target = "",
        line: Annotated[
            int, Field(description="Line, counted from 1, of the target; 0 for all.", ge=0)
        ] = 0,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, GraphAnswer]:
        """Show what torch.compile makes of targets: their graphs, guards, bytecode or shape
        events.
        """
        async with _answering(context) as show_progress:
            subject = await asyncio.to_thread(read_subject, file, text, hash)
            paging = Paging(subject.hash, budget, cursor)
            part = CheckPart(target, line)
            return _result(await graph(analyzer, subject, part, kind, paging, show_progress))


@contextlib.asynccontextmanager
async def _answering(context: Progress) -> AsyncIterator[Callable[[str], None]]:
    """Yield the function that sends progress to the client, and convert refusals to the SDK's error
    for the model.
    """
    progress = _ProgressSender(context.report_progress)
    try:
        yield progress.show
    except Refused as error:
        raise ToolError(str(error)) from error
    finally:
        progress.end()


class _ProgressSender:
    """Sends progress notifications to the client, in order, without waiting for them."""

    def __init__(self, send: Callable[[float, float | None, str | None], Awaitable[None]]) -> None:
        self._send = send
        self._messages: asyncio.Queue[str] = asyncio.Queue()
        self._task = asyncio.create_task(self._send_all())

    def show(self, words: str) -> None:
        self._messages.put_nowait(words)

    def end(self) -> None:
        self._task.cancel()

    async def _send_all(self) -> None:
        number = 0
        while True:
            words = await self._messages.get()
            number += 1
            # The client may have disconnected or does not want progress; the answer matters more.
            with contextlib.suppress(Exception):
                await self._send(number, None, words)


def _result(answer: object) -> CallToolResult:
    """Return an answer as the result of a call: as data, and as the same data in compact JSON."""
    structure = to_structure(answer)
    text = json.dumps(structure, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structure
    )
