"""The tool ``operator``: look up a torch name."""

from __future__ import annotations

import os
from pathlib import Path

from fullgraph.cli.file_settings import NearestSettings
from fullgraph.cli.op import NamePages, NoIndex, UnknownName, look_up_pages
from fullgraph.cli.sources import absolute_path
from fullgraph.engines import InterpreterNotFound, find_interpreter
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import OperatorAnswer, Refused
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import require_trust


async def look_up(analyzer: Analyzer, name: str, file: str, paging: Paging) -> OperatorAnswer:
    """Return the documentation pages of a torch name, in the torch of the project of ``file``, or
    of the current folder if ``file`` is empty.

    Raises:
        Refused: The user does not trust the folder, or torch does not have the name.
    """
    folder = absolute_path(Path(file)).parent if file else Path.cwd()
    require_trust(folder)
    own = NearestSettings(folder, analyzer.flags).find(folder / "any.py")
    try:
        interpreter = find_interpreter(own.settings.interpreter, own.project.root, os.environ)
        pages: NamePages = await analyzer.run_cancellable(
            look_up_pages(name, interpreter.path, own.project.root)
        )
    except (InterpreterNotFound, NoIndex, UnknownName) as error:
        raise Refused(str(error)) from error
    header = pages.index.header
    notes = () if header.complete else tuple(header.notes)
    text, cursor = paging.page_text(pages.format_text())
    return OperatorAnswer(name, text, header.torch, notes, cursor)
