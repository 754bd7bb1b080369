"""Output formats for findings: terminal, editor, JSON, SARIF and GitHub."""
