"""A window in which anything may happen: see ``lsp_machine``. ``make soak`` does more of it."""

from __future__ import annotations

from pathlib import Path

from forked_servers import Servers
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.server.lsp_machine import Place, Window


def test_a_window_in_which_anything_may_happen(servers: Servers, tmp_path: Path) -> None:
    class Case(Window):
        place = Place(servers, tmp_path)

    few = settings(
        max_examples=5,
        stateful_step_count=30,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Case, settings=few)
    assert Case.place.operations > 50
