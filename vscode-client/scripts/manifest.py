"""Writes the settings into package.json: those of the server from its own declaration.

``manifest.py --check`` changes nothing, and says with its exit status whether they are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE.parent / "server"), str(HERE.parent / "engine")]

from fullgraph.session.settings import vscode_configuration  # noqa: E402

MANIFEST = HERE / "package.json"

CLIENT: dict[str, dict[str, Any]] = {
    "fullgraph.gutter.enabled": {
        "type": "boolean",
        "default": False,
        "markdownDescription": "Mark beside the line numbers which lines run in which graph of "
        "the target under the cursor, and where the breaks between them are.",
        "scope": "window",
    },
    "fullgraph.gutter.untraced": {
        "type": "boolean",
        "default": True,
        "markdownDescription": "Mark beside the line numbers which lines of traced functions no "
        "trace has reached, so their graph breaks are unknown.",
        "scope": "window",
    },
    "fullgraph.trace.server": {
        "type": "string",
        "enum": ["off", "messages", "verbose"],
        "default": "off",
        "markdownDescription": "Which messages between the editor and the server are logged.",
        "scope": "window",
    },
}
"""Settings of the extension alone, which the server never reads."""

FIRST = (
    "interpreter",
    "traceOn",
    "severity",
    "ignore",
    "select",
    "exclude",
    "codeLens.enabled",
    "inlayHints.shapes",
    "inlayHints.parameters",
    "inlayHints.returns",
    "inlayHints.constants",
    "gutter.untraced",
    "gutter.enabled",
    "untraced.faded",
    "fixes",
    "forecast",
    "methods",
    "program.run",
    "program.arguments",
    "program.files",
    "program.seconds",
    "probesFromFile",
    "probesFromTests",
    "mode",
    "sandbox.allow",
    "extraPaths",
)
"""The settings that most users look for, the most important first; the others follow in the order
of their declaration."""


def configuration() -> dict[str, Any]:
    """Return ``contributes.configuration``, with the settings in the order of importance."""
    ours = vscode_configuration()
    properties = {**ours["properties"], **CLIENT}
    first = [f"fullgraph.{name}" for name in FIRST]
    names = [*first, *(name for name in properties if name not in first)]
    ordered = {name: {**properties[name], "order": at} for at, name in enumerate(names)}
    return {**ours, "properties": ordered}


def main() -> int:
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    if "--check" in sys.argv:
        return int(manifest["contributes"]["configuration"] != configuration())
    manifest["contributes"]["configuration"] = configuration()
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    MANIFEST.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
