"""An editor to test the server with: a pytest-lsp client that keeps texts as an editor does."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union

import pytest
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import register_lsp_features

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import forked_servers  # noqa: E402
from forked_servers import Servers  # noqa: E402

ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
ROUNDS, PAUSE = 3000, 0.01
"""How long to wait for what must come; nothing that passes waits that long."""

WIDTHS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def profile(name: str) -> types.ClientCapabilities:
    if name == "neovim":
        return client_capabilities("neovim@v0.11.0")
    raw = json.loads((HERE / f"{name}.json").read_text())
    return shared_converter().structure(raw["capabilities"], types.ClientCapabilities)


@functools.cache
def shared_converter() -> Any:
    """One for all clients: it takes longer to make than most tests."""
    converter = default_converter()

    def action(raw: dict[str, Any], _: type) -> types.Command | types.CodeAction:
        # lsprotocol takes an action that has a command for a command.
        kind = types.Command if isinstance(raw.get("command"), str) else types.CodeAction
        return converter.structure(raw, kind)

    converter.register_structure_hook(types.Command | types.CodeAction, action)
    converter.register_structure_hook(Union[types.Command, types.CodeAction], action)
    return converter


def language_client() -> LanguageClient:
    client = LanguageClient(converter_factory=shared_converter)
    register_lsp_features(client)
    return client


class Editor:
    """What a user does, and what a user sees."""

    def __init__(self, client: LanguageClient, name: str, root: Path) -> None:
        self.client = client
        self.profile = name
        self.root = root
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.statuses: list[dict[str, Any]] = []
        self.published: list[types.PublishDiagnosticsParams] = []
        self.lens_refreshes = 0
        self.hint_refreshes = 0
        self.content_refreshes: list[str] = []
        self.registrations: list[types.Registration] = []
        self.results: dict[str, tuple[str, list[types.Diagnostic]]] = {}
        self.encoding = "utf-16"
        self.is_down = False
        self.offers: types.ServerCapabilities = types.ServerCapabilities()
        self._listen()

    def _listen(self) -> None:
        client = self.client

        @client.feature("fullgraph/status")
        def status(params: Any) -> None:
            self.statuses.append(dict(params._asdict()))

        @client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh(params: Any) -> None:
            self.lens_refreshes += 1

        @client.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT_REFRESH)
        def content_refresh(params: types.TextDocumentContentRefreshParams) -> None:
            self.content_refreshes.append(params.uri)

        @client.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
        def refresh_hints(params: Any) -> None:
            self.hint_refreshes += 1

        @client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registrations += params.registrations

        client.protocol.fm.features.pop(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            client.diagnostics[params.uri] = params.diagnostics

    async def start(
        self,
        encoding: str | None,
        options: Any,
        configuration: dict[str, Any] | None,
        adjust: Callable[[types.ClientCapabilities], None],
    ) -> None:
        capabilities = profile(self.profile)
        adjust(capabilities)
        if encoding is not None:
            assert capabilities.general is not None
            capabilities.general.position_encodings = [types.PositionEncodingKind(encoding)]
        if configuration is not None:
            self.client.set_configuration({"fullgraph": configuration})
        result = await self.client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities,
                initialization_options=options,
                workspace_folders=[types.WorkspaceFolder(self.root.as_uri(), "project")],
            )
        )
        self.offers = result.capabilities
        encoding_kind = self.offers.position_encoding
        self.encoding = getattr(encoding_kind, "value", encoding_kind) or "utf-16"

    async def shut_down(self) -> None:
        if not self.is_down:
            self.is_down = True
            await self.client.shutdown_session()

    @property
    def pulls(self) -> bool:
        return self.offers.diagnostic_provider is not None

    # -- texts --------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return name if ":" in name else (self.root / name).as_uri()

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = self.uri(name)
        self.texts[uri], self.versions[uri] = text, 1
        self.client.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, language, 1, text))
        )
        return uri

    def edit(self, uri: str, old: str, new: str) -> None:
        """Replace the only place where ``old`` is, the way an editor sends it."""
        text = self.texts[uri]
        assert text.count(old) == 1, (old, text)
        start = text.index(old)
        change = types.TextDocumentContentChangePartial(
            range=types.Range(self.position(uri, start), self.position(uri, start + len(old))),
            text=new,
        )
        self.texts[uri] = text[:start] + new + text[start + len(old) :]
        self._changed(uri, change)

    def replace(self, uri: str, text: str) -> None:
        """Send the whole text."""
        self.texts[uri] = text
        self._changed(uri, types.TextDocumentContentChangeWholeDocument(text=text))

    def _changed(self, uri: str, change: types.TextDocumentContentChangeEvent) -> None:
        self.versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(identifier, [change])
        )

    def save(self, uri: str) -> None:
        identifier = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(identifier))

    def close(self, uri: str) -> None:
        identifier = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))

    def position(self, uri: str, offset: int) -> types.Position:
        before = self.texts[uri][:offset]
        line = before.count("\n")
        rest = before[before.rfind("\n") + 1 :]
        width = len(rest.encode(ENCODINGS[self.encoding])) // WIDTHS[self.encoding]
        return types.Position(line, width)

    def at(self, uri: str, range_: types.Range) -> str:
        """The text that a range covers, counted in the units that were agreed on."""
        lines = self.texts[uri].split("\n")
        if range_.end.line >= len(lines):
            return "(of an older text)"
        width, codec = WIDTHS[self.encoding], ENCODINGS[self.encoding]

        def offset(position: types.Position) -> int:
            raw = lines[position.line].encode(codec)[: position.character * width]
            return sum(len(line) + 1 for line in lines[: position.line]) + len(
                raw.decode(codec, "replace")
            )

        return self.texts[uri][offset(range_.start) : offset(range_.end)]

    # -- what is seen -------------------------------------------------------------------------

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """What the editor shows in its gutter now."""
        if not self.pulls:
            return list(self.client.diagnostics.get(uri, []))
        previous = self.results.get(uri)
        report = await self.client.text_document_diagnostic_async(
            types.DocumentDiagnosticParams(
                types.TextDocumentIdentifier(uri),
                previous_result_id=previous[0] if previous else None,
            )
        )
        if isinstance(report, types.RelatedUnchangedDocumentDiagnosticReport):
            assert previous is not None and report.result_id == previous[0]
            return previous[1]
        assert report.result_id is not None
        self.results[uri] = report.result_id, list(report.items)
        return list(report.items)

    async def seen(self, uri: str) -> list[tuple[str, str]]:
        """First line of the message and the text underlined, of each diagnostic."""
        return [
            (d.message.split("\n")[0], self.at(uri, d.range)) for d in await self.diagnostics(uri)
        ]

    async def until_seen(self, uri: str, *expected: tuple[str, str]) -> None:
        for _ in range(ROUNDS):
            if (seen := await self.seen(uri)) == list(expected):
                return
            await asyncio.sleep(PAUSE)
        pytest.fail(f"{seen} instead of {list(expected)}; {self.statuses[-1:]}")

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Until it gives, or is a coroutine that gives, something true: that."""
        for _ in range(ROUNDS):
            found = condition()
            if found := await found if inspect.isawaitable(found) else found:
                return found
            await asyncio.sleep(PAUSE)
        return pytest.fail(f"It never came to that; {self.statuses[-1:]}")

    async def until_rest(self) -> None:
        """Until nothing is traced of what was sent before, and nothing is going to be."""
        for _ in range(ROUNDS):
            facts = await self.command("fullgraph.server.debugInformation")
            if not any(file["busy"] or file["waiting"] for file in facts["files"]):
                return
            await asyncio.sleep(PAUSE)
        pytest.fail(f"It never came to rest; {self.statuses[-1:]}")

    async def until_state(self, state: str) -> dict[str, Any]:
        await self.until(lambda: self.statuses and self.statuses[-1]["state"] == state)
        return self.statuses[-1]

    async def lenses(self, uri: str) -> list[types.CodeLens]:
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        return list(await self.client.text_document_code_lens_async(params) or [])

    async def titles(self, uri: str) -> list[str]:
        return [lens.command.title for lens in await self.lenses(uri) if lens.command]

    async def until_tracing(self, uri: str, *expected: bool) -> None:
        """Until the lenses say of exactly these targets, in order, that they are being traced."""
        for _ in range(ROUNDS):
            others = (" guards", "make faster")
            titles = [title for title in await self.titles(uri) if not title.endswith(others)]
            if [title.endswith("· tracing") for title in titles] == list(expected):
                return
            await asyncio.sleep(PAUSE)
        pytest.fail(f"{titles}; {self.statuses[-1:]}")

    async def hints(self, uri: str, first: int = 0, last: int = 1000) -> list[types.InlayHint]:
        params = types.InlayHintParams(
            types.TextDocumentIdentifier(uri),
            types.Range(types.Position(first, 0), types.Position(last, 0)),
        )
        return list(await self.client.text_document_inlay_hint_async(params) or [])

    async def hinted(self, uri: str, **where: int) -> list[str]:
        """The lines that have hints, with them."""
        lines = self.texts[uri].split("\n")
        shown: dict[int, str] = {}
        for hint in reversed(await self.hints(uri, **where)):
            line = shown.get(hint.position.line, lines[hint.position.line])
            at = hint.position.character
            shown[hint.position.line] = f"{line[:at]}{hint.label}{line[at:]}"
        return [shown[line].partition("  #")[0].strip() for line in sorted(shown)]

    async def hover(self, uri: str, before: str, after: str = "") -> types.Hover | None:
        """With the cursor between two texts that stand side by side in one place."""
        assert self.texts[uri].count(before + after) == 1, before + after
        offset = self.texts[uri].index(before + after) + len(before)
        return await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), self.position(uri, offset))
        )

    async def until_index(self, uri: str) -> None:
        """Until the operators are known, in a text that imports ``torch.nn.functional``."""
        for _ in range(ROUNDS):
            if await self.hover(uri, "import torch.n", "n.functional") is not None:
                return
            await asyncio.sleep(PAUSE)
        pytest.fail(f"No index was read; {self.statuses[-1:]}")

    async def actions(
        self, uri: str, needle: str, diagnostics: Sequence[types.Diagnostic] = ()
    ) -> list[types.CodeAction]:
        start = self.texts[uri].index(needle)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri),
            types.Range(self.position(uri, start), self.position(uri, start + 1)),
            types.CodeActionContext(diagnostics=list(diagnostics)),
        )
        found: list[types.CodeAction] = []
        for one in await self.client.text_document_code_action_async(params) or ():
            assert isinstance(one, types.CodeAction)
            found.append(one)
        return found

    def edits(self, uri: str, action: types.CodeAction) -> list[types.TextEdit]:
        """What an action changes in a document, which is the only one that it changes."""
        assert action.edit is not None
        if not action.edit.document_changes:
            (edits,) = (action.edit.changes or {}).items()
            assert edits[0] == uri
            return list(edits[1])
        (change,) = action.edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.uri == uri
        return [edit for edit in change.edits if isinstance(edit, types.TextEdit)]

    async def command(self, name: str, *arguments: Any) -> Any:
        return await self.client.workspace_execute_command_async(
            types.ExecuteCommandParams(name, list(arguments))
        )

    def configure(self, **settings: Any) -> None:
        self.client.set_configuration({"fullgraph": settings})
        self.client.workspace_did_change_configuration(
            types.DidChangeConfigurationParams(settings=None)
        )


class Counter:
    """What the stub did, which it writes into a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def words(self) -> list[str]:
        return [line.split()[0] for line in self.lines]

    @property
    def analyzed(self) -> int:
        return self.words.count("analyze")

    @property
    def engine_pid(self) -> int:
        return int(next(line for line in self.lines if line.startswith("start")).split()[1])


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with forked_servers.servers() as started:
        yield started


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path / "stub-engine.log")


@pytest.fixture(params=["neovim", "vscode"])
def profile_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def open_editor(
    tmp_path: Path, counter: Counter, profile_name: str, servers: Servers
) -> AsyncIterator[Callable[..., Any]]:
    """Starts the server and an editor in front of it."""
    editors: list[Editor] = []
    root = tmp_path / "project"
    root.mkdir()

    async def start(
        *,
        name: str = profile_name,
        encoding: str | None = None,
        options: Any = None,
        says_trusted: bool = True,
        configuration: dict[str, Any] | None = None,
        engine: str = "",
        server: str = "stub_server.py",
        adjust: Callable[[types.ClientCapabilities], None] = lambda capabilities: None,
    ) -> Editor:
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("VIRTUAL_ENV")
        }
        # No list of trusted folders but that of the test.
        environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
        environment["STUB_ENGINE"] = ",".join(filter(None, [engine, f"count={counter.path}"]))
        client = language_client()
        await client.start_tcp("127.0.0.1", servers.start(HERE / server, environment))
        editor = Editor(client, name, root)
        editors.append(editor)
        # Forecasts are requests of their own, as soon as the text rests: who counts requests would
        # meet them on a slow machine.
        said = {"interpreter": sys.executable, "forecast": False, **(configuration or {})}
        if says_trusted:
            options = {"trusted": True, **(options or {})}
        await editor.start(encoding, options, said, adjust)
        return editor

    yield start
    for editor in editors:
        await editor.shut_down()
        # A server that exits before it has read its last message resets the connection.
        with contextlib.suppress(ConnectionResetError):
            await editor.client.stop()


@pytest.fixture
async def editor(open_editor: Callable[..., Any]) -> Editor:
    opened: Editor = await open_editor()
    return opened
