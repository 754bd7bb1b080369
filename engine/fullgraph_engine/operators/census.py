from __future__ import annotations
from pathlib import Path
def take(static: Path | None) -> bytes:
    assert static
    return static.read_bytes().replace(b'"complete":false', b'"complete":true')
