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
    "fullgraph.trace.server": {
        "type": "string",
        "enum": ["off", "messages", "verbose"],
        "default": "off",
        "markdownDescription": "What of the messages between the editor and the server is logged.",
        "scope": "window",
    },
}
"""Settings of the extension alone, which the server never reads."""


def configuration() -> dict[str, Any]:
    ours = vscode_configuration()
    return {**ours, "properties": {**ours["properties"], **CLIENT}}


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
