from __future__ import annotations

import sys
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
