"""Findings for whoever reads them: a terminal, an editor, a code-scanning service."""
