"""Whether the code of an open file may be executed now."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.open_files import OpenFiles
from fullgraph.session.unit_events import Reason, is_due
from fullgraph.session.workspace import Workspace

_INSTALLED = frozenset({"site-packages", "dist-packages"})

_LOCAL = frozenset({"file", "untitled", "buffer"})
"""URI schemes of documents to trace: files and unsaved documents. Sublime Text uses ``buffer``."""

UNTRUSTED = "This workspace is not trusted, so none of its code is executed."


class TracePermission:
    """Decides whether code may be traced: the editor has sent its settings, the user trusts the
    workspace, and the settings do not exclude the file.
    """

    def __init__(self, workspace: Workspace, files: OpenFiles) -> None:
        self._workspace = workspace
        self._files = files
        self.configured = asyncio.Event()
        """Set while the editor's settings are known; no code may be executed before."""
        self.closed = False
        """True after the session ended."""

    @property
    def may_execute(self) -> bool:
        """Whether code of the workspace may be executed."""
        return self._workspace.trusted and self.configured.is_set() and not self.closed

    def explain_refusal(self, unit: AnalysisUnit, reason: Reason) -> str:
        """Return a sentence why a file may not be traced now for this reason; empty if it may."""
        if self.closed or not self.configured.is_set():
            return "The server is starting; try again in a moment."
        if not self._workspace.trusted:
            return UNTRUSTED
        if not self._workspace.is_current(unit.document):
            self._workspace.forget_settings()
            self._files.update_all()
        if reason is Reason.ASKED:
            return ""
        trace_on = self._workspace.settings(unit.document).trace_on
        if not is_due(reason, trace_on):
            # The setting may have arrived after the text was edited.
            return f"The setting `trace-on` is {trace_on!r}."
        path = unit.document.path
        if path is not None and not _INSTALLED.isdisjoint(path.parts):
            return "Installed packages are traced only on command."
        if urlsplit(unit.document.uri).scheme not in _LOCAL:
            return "A file that is not on this machine is traced only on command."
        if self._workspace.is_excluded(unit.document):
            return "The setting `exclude` matches this file, so it is traced only on command."
        return ""
