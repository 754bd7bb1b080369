"""Count the right and wrong rewrites that the MCP tool ``verify`` accepts.

Usage: ``python -m tests.benchmarks.agent_rewrites [WORD ...]``; with words, only the rewrites whose
names contain one of them. Prints each rewrite that ``verify`` judges wrongly, and the counts.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from agents import Agent, ToolFailed, agent_of_process, make_project
from tests.engine.behavior_pairs import REFUSED, RIGHT, Pair, pairs_of

REWRITES = Path(__file__).parents[1] / "fixtures" / "rewrites"


def read_pairs() -> list[tuple[Pair, bool]]:
    """Return all rewrites of the tests, and whether each is right."""
    wrong = [*pairs_of((REWRITES / "wrong.txt").read_text()), *REFUSED]
    right = [*pairs_of((REWRITES / "right.txt").read_text()), *RIGHT]
    return [*((pair, False) for pair in wrong), *((pair, True) for pair in right)]


async def verify_pair(agent: Agent, pair: Pair) -> dict[str, Any]:
    """Return the answer of ``verify`` for one rewrite; an error has only a verdict."""
    while True:
        try:
            return await agent.call(
                "verify", file="model.py", text=pair.original, changed=pair.changed
            )
        except ToolFailed as error:
            if "continues" not in str(error):
                return {"verdict": f"error: {error}"}


async def judge_pairs(words: list[str]) -> bool:
    """Verify the rewrites and print what ``verify`` says; return whether it judged all rightly."""
    counts = {"wrong rejected": 0, "wrong accepted": 0, "right accepted": 0, "right rejected": 0}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        project.interpreter = Path(sys.executable)
        os.environ["XDG_CACHE_HOME"] = folder
        async with agent_of_process(project) as agent:
            for pair, is_right in read_pairs():
                if words and not any(word in pair.name for word in words):
                    continue
                started = time.monotonic()
                answer = await verify_pair(agent, pair)
                print(f"{time.monotonic() - started:6.1f} s  {pair.name}", file=sys.stderr)
                accepted = "are the same" in answer["verdict"]
                side = "right" if is_right else "wrong"
                counts[f"{side} {'accepted' if accepted else 'rejected'}"] += 1
                if words or accepted != is_right:
                    reasons = [
                        f"{one['outcome']}/{one.get('compiled')}: {one.get('reason', '')}"
                        for one in answer.get("behavior", ())
                    ]
                    print(f"{side}: {pair.name}: {answer['verdict']}", *reasons, sep="\n    ")
                    if words:
                        print("   ", answer.get("targets"), answer.get("notes"))
    print(", ".join(f"{number} {name}" for name, number in counts.items()), end="; ")
    print(f"{time.monotonic() - began:.0f} s")
    return not counts["wrong accepted"] and not counts["right rejected"]


if __name__ == "__main__":
    raise SystemExit(not asyncio.run(judge_pairs(sys.argv[1:])))
