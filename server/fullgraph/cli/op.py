"""``fullgraph op``: what hover says of a name, in a terminal or as JSON."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines import Engine, EngineListener, EngineState, sentences
from fullgraph.operators.index import OperatorIndex
from fullgraph.operators.lookup import look_up, nearest_names
from fullgraph.render.json import VERSION, dump
from fullgraph.render.operators import OperatorPage, page_json, page_of, page_text
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph_engine.protocol import IndexWritten
from fullgraph_engine.protocol.operators import IndexUnreadable

PATIENCE = 20.0
"""Seconds to wait for what only the running torch knows, once its files have been read."""


class NoIndex(Exception):
    """There is nothing to look into. One sentence, and the next step."""


class Unknown(Exception):
    """torch has nothing of that name. One sentence, with names like it."""


@dataclass(frozen=True)
class Pages:
    """What a name stands for, in the index that it was looked up in."""

    written: str
    index: OperatorIndex
    pages: tuple[OperatorPage, ...]

    def text(self, paint: Paint = PLAIN) -> str:
        parts = []
        for page in self.pages:
            title = f"{paint(Style.INFORMATION, page.path)} {paint(Style.DIM, page.kind)}\n\n"
            parts.append((title if len(self.pages) > 1 else "") + page_text(page, paint))
        if not self.index.header.complete:
            parts += [f"{paint(Style.STRONG, 'note:')} {note}" for note in self.index.header.notes]
        return "\n\n".join(parts)

    def json(self) -> str:
        header = self.index.header
        return dump(
            {
                "version": VERSION,
                "torch": header.torch or None,
                "complete": header.complete,
                "notes": list(header.notes),
                "name": self.written,
                "found": [page_json(page) for page in self.pages],
            }
        )


async def pages_of(written: str, interpreter: Path, folder: Path) -> Pages:
    """Start the engine of an interpreter for its operator index, and look a name up.

    Raises:
        NoIndex: the engine cannot work, or wrote no index.
        Unknown: the index has no such name.
    """
    index = await _index(interpreter, folder)
    found = (page_of(index, subject) for subject in look_up(index, written))
    pages = tuple(page for page in found if page is not None)
    if pages:
        return Pages(written, index, pages)
    like = nearest_names(index, written)
    version = f" {index.header.torch}" if index.header.torch else ""
    unknown = f"torch{version} has no name or operator `{written}`"
    raise Unknown(f"{unknown}; is it {_either(like)}?" if like else f"{unknown}.")


def _either(names: tuple[str, ...]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last


async def _index(interpreter: Path, folder: Path) -> OperatorIndex:
    """The whole index; what the files of torch say where the rest does not come in time."""
    written: asyncio.Queue[IndexWritten] = asyncio.Queue()
    engine = Engine(
        interpreter,
        EngineListener(index=written.put_nowait),
        cwd=folder,
        back_off=(),
    )
    await engine.start()
    ended = asyncio.create_task(_ended(engine))
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
        # Not asked to end: it may be in the middle of importing torch.
        engine.kill()
        await engine.close()
    if last is None:
        raise NoIndex(ended.result())
    try:
        return OperatorIndex.load(Path(last.path))
    except (OSError, IndexUnreadable) as error:
        raise NoIndex(f"The operator index {last.path} cannot be read: {error}.") from error


async def _ended(engine: Engine) -> str:
    """Why nothing more will come, once that is certain."""
    status = await engine.ready()
    if status.state is EngineState.READY:
        await asyncio.sleep(PATIENCE)
        return "The engine wrote no operator index; `fullgraph doctor` says what works."
    return sentences(status.message, status.next_step)
