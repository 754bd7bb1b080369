"""``fullgraph op``: show the documentation page of a torch name or operator, as editors do on
hover."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.phrases import listing
from fullgraph.engines import Engine, EngineListener, EngineState, sentences
from fullgraph.operators.index import OperatorIndex
from fullgraph.operators.lookup import look_up, nearest_names
from fullgraph.render.json import VERSION, dump_json
from fullgraph.render.operators import OperatorPage, page_json, page_of, page_text
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph_engine.protocol import IndexWritten
from fullgraph_engine.protocol.operators import IndexUnreadable

PATIENCE = 20.0
"""Maximum seconds to wait for the complete operator index, which needs an import of torch.

The wait begins when the index of torch's files, which is faster to build, is available.
"""


class NoIndex(Exception):
    """Raised if no operator index could be built; the message says why and what to do."""


class UnknownName(Exception):
    """Raised if torch does not have the requested name; the message lists similar names."""


@dataclass(frozen=True)
class NamePages:
    """The documentation pages of the torch names and operators that match ``name``, which the user
    wrote.

    ``index`` is the operator index in which ``name`` was looked up.
    """

    name: str
    index: OperatorIndex
    pages: tuple[OperatorPage, ...]

    def format_text(self, paint: Paint = PLAIN) -> str:
        """Format the pages for a terminal; ``paint`` adds colors."""
        parts = []
        for page in self.pages:
            title = f"{paint(Style.INFORMATION, page.path)} {paint(Style.DIM, page.kind)}\n\n"
            parts.append((title if len(self.pages) > 1 else "") + page_text(page, paint))
        if not self.index.header.complete:
            parts += [f"{paint(Style.STRONG, 'note:')} {note}" for note in self.index.header.notes]
        return "\n\n".join(parts)

    def format_json(self) -> str:
        """Format the pages as a JSON document."""
        header = self.index.header
        return dump_json(
            {
                "version": VERSION,
                "torch": header.torch or None,
                "complete": header.complete,
                "notes": list(header.notes),
                "name": self.name,
                "found": [page_json(page) for page in self.pages],
            }
        )


async def look_up_pages(name: str, interpreter: Path, folder: Path) -> NamePages:
    """Look up a name or operator of the torch that an interpreter has.

    An engine process builds the operator index; ``folder`` is its working directory.

    Raises:
        NoIndex: The engine cannot work, or did not write an index.
        UnknownName: The torch of the interpreter does not have the name.
    """
    index = await _load_index(interpreter, folder)
    found = (page_of(index, subject) for subject in look_up(index, name))
    pages = tuple(page for page in found if page is not None)
    if pages:
        return NamePages(name, index, pages)
    like = nearest_names(index, name)
    version = f" {index.header.torch}" if index.header.torch else ""
    unknown = f"torch{version} has no name or operator `{name}`"
    raise UnknownName(f"{unknown}; is it {listing(like, 'or')}?" if like else f"{unknown}.")


async def _load_index(interpreter: Path, folder: Path) -> OperatorIndex:
    """Load the operator index of an interpreter's torch.

    It is the complete index, or after ``PATIENCE`` seconds the one built from torch's files.

    Raises:
        NoIndex: The engine cannot work, or did not write an index.
    """
    written: asyncio.Queue[IndexWritten] = asyncio.Queue()
    engine = Engine(
        interpreter,
        EngineListener(index=written.put_nowait),
        cwd=folder,
        back_off=(),
    )
    await engine.start()
    ended = asyncio.create_task(_wait_for_failure(engine))
    loop = asyncio.get_running_loop()
    last: IndexWritten | None = None
    deadline: float | None = None
    try:
        while last is None or not last.complete:
            event = asyncio.create_task(written.get())
            await asyncio.wait(
                {event, ended},
                timeout=None if deadline is None else max(0.0, deadline - loop.time()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not event.done():
                event.cancel()
                break
            last = event.result()
            deadline = loop.time() + PATIENCE if deadline is None else deadline
    finally:
        if not ended.done():
            ended.cancel()
        # Killing avoids waiting for an import of torch.
        engine.kill()
        await engine.close()
    if last is None:
        raise NoIndex(ended.result())
    try:
        return OperatorIndex.load(Path(last.path))
    except (OSError, IndexUnreadable) as error:
        raise NoIndex(f"The operator index {last.path} cannot be read: {error}.") from error


async def _wait_for_failure(engine: Engine) -> str:
    """Wait until the engine fails or has been ready for ``PATIENCE`` seconds.

    Return a sentence about why it did not write an index.
    """
    status = await engine.ready()
    if status.state is EngineState.READY:
        await asyncio.sleep(PATIENCE)
        return "The engine did not write an operator index; `fullgraph doctor` may show why."
    return sentences(status.message, status.next_step)
