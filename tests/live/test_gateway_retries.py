"""Real clients with their default retries, two gateways on one Postgres, and an engine that fails or kills them."""

from __future__ import annotations

import pytest
from rich.console import Console

from lab.retries.__main__ import CLIENTS, measure

pytestmark = pytest.mark.live
REQUESTS = 70
KILLS = 6
APPROVED = 20


def test_no_client_that_retries_causes_an_effect_twice() -> None:
    results = measure(REQUESTS, KILLS, approves=False, console=Console(quiet=True))
    assert (results.twice, results.strange) == ({}, [])
    assert results.answered.total() + results.errors.total() == REQUESTS
    assert all(results.answered[client] for client in CLIENTS)
    assert results.kills


def test_a_request_that_is_retried_raises_one_approval() -> None:
    results = measure(APPROVED, 0, approves=True, console=Console(quiet=True))
    assert (results.twice, results.strange) == ({}, [])
    assert results.approvals.total() == len(results.approvals) <= APPROVED
    assert results.effects.total()
