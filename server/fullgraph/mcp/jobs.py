"""Searches that may take longer than a client waits for an answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from fullgraph.mcp.answers import Refused

ShowProgress = Callable[[str], None]
"""Function that sends a message about the current work to the client."""

PATIENCE = 50.0
"""Default number of seconds until a call is answered; many clients give up after 60 seconds."""
_MOST_ANSWERS = 16
"""Maximum number of answers to keep, for calls with a cursor."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Waiting:
    """How a call waits for an answer: with a cursor of an earlier answer, for at most ``seconds``.

    ``show_progress`` receives the progress while the call waits.
    """

    cursor: str
    seconds: float
    show_progress: ShowProgress


@dataclass(eq=False)
class _Job:
    """A search for the answer to equal calls; ``waiting`` are the calls that wait for it now."""

    task: asyncio.Task[Any] | None = None
    waiting: tuple[Waiting, ...] = ()
    progress: str = "not started yet"

    def show_progress(self, words: str) -> None:
        self.progress = words
        for one in self.waiting:
            one.show_progress(words)


class Jobs:
    """The searches of a server. Equal calls, at the same time or later, share one."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[Hashable, _Job] = OrderedDict()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        """Complete answers, for later calls with a cursor."""

    async def answer(
        self,
        key: Hashable,
        waiting: Waiting,
        work: Callable[[ShowProgress], Coroutine[Any, Any, _T]],
    ) -> _T:
        """Return the complete answer to calls with this key; ``work`` computes it.

        A call with a cursor gets the answer that the cursor comes from, if it is still known. If
        the last call that waits is cancelled, the search is cancelled.

        Raises:
            Refused: The search takes longer than the call waits; it continues.
        """
        if waiting.cursor and key in self._answers:
            found: _T = self._answers[key]
            return found
        job = self._jobs.setdefault(key, _Job())
        if job.task is None:
            job.task = asyncio.ensure_future(work(job.show_progress))
        job.waiting = (*job.waiting, waiting)
        try:
            await asyncio.wait({job.task}, timeout=waiting.seconds)
        except asyncio.CancelledError:
            if len(job.waiting) == 1:
                self._jobs.pop(key, None)
                job.task.cancel()
            raise
        finally:
            job.waiting = tuple(one for one in job.waiting if one is not waiting)
        if not job.task.done():
            raise Refused(
                f"The search needs more than {waiting.seconds:g} s and continues (now: "
                f"{job.progress}); call the tool again with the same arguments for its answer."
            )
        self._jobs.pop(key, None)
        self._answers.pop(key, None)
        answer: _T = job.task.result()
        self._answers[key] = answer
        self._drop_oldest()
        return answer

    def _drop_oldest(self) -> None:
        while len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)
        unclaimed = [key for key, job in self._jobs.items() if job.task and job.task.done()]
        for key in unclaimed[:-_MOST_ANSWERS]:
            del self._jobs[key]

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Cancel all searches, and return their tasks."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for task in tasks:
            task.cancel()
        self._jobs.clear()
        return tasks
