"""Anthropic's own client, unmodified, against `ferrule serve` on a real model.

Once in each way; `scripts/long gateway-clients` does it twenty times.
"""

from __future__ import annotations

import pytest

from lab.client_runs import MESSAGES, ClientRun
from lab.gateway_clients import ClientBench
from live.gateway_refusing import REMOTE, Refusing

pytestmark = pytest.mark.live


@pytest.mark.parametrize("way", MESSAGES, ids=lambda way: way.op.partition(".")[2])
def test_every_call_fits_and_every_answer_is_read_again_strictly(stage: ClientBench, way: ClientRun) -> None:
    judged = stage.run(way)
    assert judged.faults == ()
    assert judged.calls >= 1
    assert bool(judged.events) is way.is_streamed


def test_counted_tokens_are_the_tokens_that_the_answer_says_were_read(stage: ClientBench) -> None:
    told = stage.ask("anthropic", "live_anthropic.count")
    assert told["error"] is None
    assert told["counted"] == told["used"] > 100


def test_an_engine_that_cannot_count_tokens_refuses(refused: Refusing) -> None:
    assert refused.error("anthropic", "live_anthropic.count").startswith("BadRequestError: Error code: 400")


def test_the_models_are_listed(refused: Refusing) -> None:
    assert refused.told("anthropic", "live_anthropic.models")["models"] == ["words", "broken"]


@pytest.mark.parametrize("op", ["live_anthropic.create", "live_anthropic.events"])
def test_refusals_are_the_clients_own_exceptions(refused: Refusing, op: str) -> None:
    assert refused.error("anthropic", op, key="fk_wrong").startswith("AuthenticationError: Error code: 401")
    assert refused.error("anthropic", op, model="nobody").startswith("NotFoundError: Error code: 404")
    bad = [{"name": "x", "input_schema": REMOTE}]
    assert refused.error("anthropic", op, more={"tools": bad}).startswith("BadRequestError: Error code: 400")


@pytest.mark.parametrize("op", ["live_anthropic.events", "live_anthropic.stream"])
def test_a_stream_that_breaks_off_raises_and_what_came_before_is_well_formed(refused: Refusing, op: str) -> None:
    refused.judged()
    error = refused.error("anthropic", op, model="broken", more={"tool_choice": {"type": "auto"}})
    assert "connection lost" in error
    assert error.partition(":")[0].endswith("Error")
    judged = refused.judged()
    assert (judged.streams, judged.faults) == (1, ())
