"""OpenAI's Agents SDK, unmodified, in its own tool loop against `ferrule serve` on a real model.

Once in each way; `scripts/long gateway-clients` does it twenty times.
"""

from __future__ import annotations

import pytest

from lab.client_runs import AGENTS, ClientRun
from lab.gateway_clients import ClientBench
from live.gateway_refusing import Refusing

pytestmark = pytest.mark.live


@pytest.mark.parametrize("way", AGENTS, ids=lambda way: way.op.partition(".")[2])
def test_the_tools_are_run_with_arguments_that_fit_and_every_answer_is_read_again_strictly(
    stage: ClientBench, way: ClientRun
) -> None:
    judged = stage.run(way)
    assert judged.faults == ()
    assert judged.calls >= 1
    assert bool(judged.events) is way.is_streamed


@pytest.mark.parametrize("op", ["live_agents.run", "live_agents.run_streamed", "live_agents.run_chat"])
def test_refusals_are_its_clients_own_exceptions(refused: Refusing, op: str) -> None:
    assert refused.error("agents", op, key="fk_wrong").startswith("AuthenticationError: Error code: 401")
    assert refused.error("agents", op, model="nobody").startswith("NotFoundError: Error code: 404")


@pytest.mark.parametrize("op", ["live_agents.run_streamed", "live_agents.run_chat_streamed"])
def test_a_stream_that_breaks_off_is_an_error_in_the_loop(refused: Refusing, op: str) -> None:
    error = refused.error("agents", op, model="broken")
    assert error.partition(":")[0].endswith("Error")
    assert "connection lost" in error
