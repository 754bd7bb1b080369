"""The tools of the server, as the MCP SDK offers them to clients; no other module needs the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BeforeValidator, Field

from fullgraph import __version__
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import (
    CheckAnswer,
    CompareAnswer,
    ExplainAnswer,
    FixAnswer,
    GraphAnswer,
    OperatorAnswer,
    Refused,
    ReproAnswer,
    VerifyAnswer,
)
from fullgraph.mcp.instructions import INSTRUCTIONS
from fullgraph.mcp.jobs import PATIENCE, Waiting
from fullgraph.mcp.paging import DEFAULT_BUDGET, Paging, to_structure
from fullgraph.mcp.tools.check import CheckPart, check, page_check
from fullgraph.mcp.tools.compare import ComparedSides, compare, page_comparison
from fullgraph.mcp.tools.explain import explain, explain_only_code
from fullgraph.mcp.tools.fix import FixWish, find_fixes, page_fixes
from fullgraph.mcp.tools.graph import graph
from fullgraph.mcp.tools.operator import look_up
from fullgraph.mcp.tools.repro import reproduce
from fullgraph.mcp.tools.verify import page_verification, verify
from fullgraph_engine.protocol.documents import DocumentKind


def _keep_text(value: object) -> object:
    """Return the JSON text of a value that the SDK has parsed, such as a notebook; return other
    values unchanged."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value


File = Annotated[str, Field(description="Path of a Python file or notebook.")]
Text = Annotated[
    str | None,
    Field(description="Unsaved text of the file, to analyze instead of the file on disk."),
    BeforeValidator(_keep_text),
]
Version = Annotated[
    str,
    Field(description="Hash from an earlier answer; the call is refused if the text differs."),
]
Budget = Annotated[int, Field(description="Maximum size of the answer in tokens.", ge=100)]
Cursor = Annotated[
    str, Field(description="Cursor from the previous answer, to get the rest of it.")
]
Wait = Annotated[
    float,
    Field(
        description=(
            "Seconds to wait for the answer. If it takes longer, call again with the same "
            "arguments."
        ),
        gt=0,
    ),
]
Target = Annotated[str, Field(description="Name of one function or class; empty for all.")]
Line = Annotated[int, Field(description="Line, counted from 1; 0 for all.", ge=0)]

Progress = Context[Any, Any]
_READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_T = TypeVar("_T")


async def serve(flags: Mapping[str, Any]) -> None:
    """Serve a client on standard input and output until it disconnects, or a signal ends the
    process.

    ``flags`` are the settings on the command line, by name.
    """
    analyzer = Analyzer(flags)

    def end_process(number: signal.Signals) -> None:
        # A thread of the SDK waits for standard input and would block a normal exit of Python.
        analyzer.pool.kill()
        os._exit(128 + number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end_process, number)
    await make_server(analyzer).run_stdio_async()


def make_server(analyzer: Analyzer) -> MCPServer[Any]:
    """Return the MCP server with all tools; the engines of ``analyzer`` stop when a session
    ends.
    """

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
    add_editing_tools(server, analyzer)
    add_reference_tools(server, analyzer)
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
        wait: Wait = PATIENCE,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, CheckAnswer]:
        """List the findings of a file: graph breaks, recompiles, failing operators. The one to
        change first is at the top; findings with one cause are one item.
        """
        async with _answering(context) as show_progress:
            subject = await analyzer.read(file, text, hash)
            part, forecast = CheckPart(target, line), recompiles or None
            answer = await analyzer.jobs.answer(
                ("check", file, subject.hash, part, forecast),
                Waiting(cursor, wait, show_progress),
                lambda show: check(analyzer, subject, part, forecast, show),
            )
            return _result(page_check(answer, Paging(subject.hash, budget, cursor)))

    @server.tool(name="explain", annotations=_READ_ONLY)
    async def explain_tool(
        context: Progress,
        finding: Annotated[
            str, Field(description="Id of a finding of the file, or a code such as GB0170.")
        ],
        file: Annotated[
            str, Field(description="Path of the file; empty for the documentation of a code.")
        ] = "",
        target: Target = "",
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
            subject = await analyzer.read(file, text, hash)
            paging = Paging(subject.hash, budget, cursor)
            answer = await explain(analyzer, subject, finding, target, paging, show_progress)
            return _result(answer)

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
            int, Field(description="Line of the target, counted from 1; 0 for all targets.", ge=0)
        ] = 0,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, GraphAnswer]:
        """Show what torch.compile makes of targets: their graphs, guards, bytecode or shape
        events.
        """
        async with _answering(context) as show_progress:
            subject = await analyzer.read(file, text, hash)
            paging = Paging(subject.hash, budget, cursor)
            part = CheckPart(target, line)
            return _result(await graph(analyzer, subject, part, kind, paging, show_progress))


def add_editing_tools(server: MCPServer[Any], analyzer: Analyzer) -> None:
    """Add the tools about edits of a text: ``fix`` and ``verify``. They do not write files."""

    @server.tool(name="fix", annotations=_READ_ONLY)
    async def fix_tool(
        context: Progress,
        file: File,
        finding: Annotated[
            str, Field(description="Id of one finding; empty for all findings of the file.")
        ] = "",
        target: Target = "",
        unsafe: Annotated[
            bool,
            Field(
                description="Also apply unsafe fixes. Their results may differ from the original "
                "code for inputs that were not tried."
            ),
        ] = False,
        backend: Annotated[
            bool, Field(description="Also verify with C++ code of Inductor (slow).")
        ] = False,
        text: Text = None,
        hash: Version = "",
        wait: Wait = PATIENCE,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, FixAnswer]:
        """Search for edits that remove findings, each verified by a trace and by comparing results
        and gradients. Returns a unified diff; no file is written.
        """
        async with _answering(context) as show_progress:
            subject = await analyzer.read(file, text, hash)
            wish = FixWish(finding, target, unsafe, backend)
            answer = await analyzer.jobs.answer(
                ("fix", file, subject.hash, wish),
                Waiting(cursor, wait, show_progress),
                lambda show: find_fixes(analyzer, subject, wish, show),
            )
            return _result(page_fixes(answer, Paging(subject.hash, budget, cursor)))

    @server.tool(name="verify", annotations=_READ_ONLY)
    async def verify_tool(
        context: Progress,
        file: File,
        changed: Annotated[
            str | None,
            Field(description="Whole text of the file after your edit."),
            BeforeValidator(_keep_text),
        ] = None,
        diff: Annotated[
            str, Field(description="Unified diff of your edit, instead of `changed`.")
        ] = "",
        target: Target = "",
        text: Text = None,
        hash: Version = "",
        wait: Wait = PATIENCE,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, VerifyAnswer]:
        """Verify your own edit before you write it: findings that the edit removes, leaves or
        adds, and whether results and gradients stay the same, also compiled.
        """
        async with _answering(context) as show_progress:
            subject = await analyzer.read(file, text, hash)
            after = subject.read_edit(changed, diff)
            answer = await analyzer.jobs.answer(
                ("verify", file, subject.hash, after, target),
                Waiting(cursor, wait, show_progress),
                lambda show: verify(analyzer, subject, after, target, show),
            )
            return _result(page_verification(answer, Paging(subject.hash, budget, cursor)))


def add_reference_tools(server: MCPServer[Any], analyzer: Analyzer) -> None:
    """Add ``repro``, ``compare`` and ``operator``."""

    @server.tool(name="repro", annotations=_READ_ONLY)
    async def repro_tool(
        context: Progress,
        file: File,
        finding: Annotated[str, Field(description="Id of a finding, or its code.")],
        seconds: Annotated[
            float, Field(description="Time limit in seconds; 0: the limit of the settings.", ge=0)
        ] = 0,
        text: Text = None,
        hash: Version = "",
        wait: Wait = PATIENCE,
    ) -> Annotated[CallToolResult, ReproAnswer]:
        """Make a short script that shows one finding, for a bug report."""
        async with _answering(context) as show_progress:
            subject = await analyzer.read(file, text, hash)
            return _result(
                await analyzer.jobs.answer(
                    ("repro", file, subject.hash, finding, seconds),
                    Waiting("", wait, show_progress),
                    lambda show: reproduce(analyzer, subject, finding, seconds, show),
                )
            )

    @server.tool(name="compare", annotations=_READ_ONLY)
    async def compare_tool(
        context: Progress,
        file: File,
        revision: Annotated[
            str,
            Field(description="Git revision of the old side; HEAD if no Python is given."),
        ] = "",
        old_python: Annotated[
            str, Field(description="Python interpreter whose torch traces the old side.")
        ] = "",
        new_python: Annotated[
            str, Field(description="Python interpreter whose torch traces the new side.")
        ] = "",
        text: Text = None,
        hash: Version = "",
        wait: Wait = PATIENCE,
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, CompareAnswer]:
        """Compare the findings and traces of a file in a git revision with its text now, or in two
        Pythons with different versions of torch.
        """
        async with _answering(context) as show_progress:
            subject = await analyzer.read(file, text, hash)
            sides = ComparedSides(revision, old_python, new_python)
            answer = await analyzer.jobs.answer(
                ("compare", file, subject.hash, sides),
                Waiting(cursor, wait, show_progress),
                lambda show: compare(analyzer, subject, sides, show),
            )
            return _result(page_comparison(answer, Paging(subject.hash, budget, cursor)))

    @server.tool(name="operator", annotations=_READ_ONLY)
    async def operator_tool(
        context: Progress,
        name: Annotated[
            str,
            Field(
                description="Function, method or operator, for example torch.max, Tensor.add_ "
                "or aten::max.dim."
            ),
        ],
        file: Annotated[
            str, Field(description="Any file of the project, to look in the torch of this project.")
        ] = "",
        budget: Budget = DEFAULT_BUDGET,
        cursor: Cursor = "",
    ) -> Annotated[CallToolResult, OperatorAnswer]:
        """Show the schemas, fake kernel, decomposition and tags of a torch name or operator."""
        async with _answering(context):
            return _result(await look_up(analyzer, name, file, Paging(name, budget, cursor)))


@contextlib.asynccontextmanager
async def _answering(context: Progress) -> AsyncIterator[Callable[[str], None]]:
    """Yield the function that sends progress to the client, and convert refusals to the SDK's error
    for the model.
    """
    progress = _ProgressSender(context.report_progress)
    try:
        yield progress.show
        await progress.flush()
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

    async def flush(self) -> None:
        """Wait, for at most a second, until all messages were sent."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._messages.join(), 1)

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
            self._messages.task_done()


def _result(answer: object) -> CallToolResult:
    """Return an answer as the result of a call: as data, and as the same data in compact JSON."""
    structure = to_structure(answer)
    text = json.dumps(structure, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structure
    )
