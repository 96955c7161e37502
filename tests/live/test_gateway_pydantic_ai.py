"""Pydantic AI, unmodified, in its own tool loop against `ferrule serve` on a real model.

Once in each way; `scripts/long gateway-clients` does it twenty times.
"""

from __future__ import annotations

import pytest

from lab.client_runs import PYDANTIC_AI, ClientRun
from lab.gateway_clients import ClientBench
from live.gateway_refusing import Refusing

pytestmark = pytest.mark.live


@pytest.mark.parametrize("way", PYDANTIC_AI, ids=lambda way: way.op.partition(".")[2])
def test_the_tools_are_run_with_arguments_that_fit_and_every_answer_is_read_again_strictly(
    stage: ClientBench, way: ClientRun
) -> None:
    judged = stage.run(way)
    assert judged.faults == ()
    assert judged.calls >= 1
    assert bool(judged.events) is way.is_streamed


@pytest.mark.parametrize("op", ["live_pydantic_ai.run", "live_pydantic_ai.run_streamed"])
def test_refusals_are_its_own_exceptions(refused: Refusing, op: str) -> None:
    assert refused.error("pydantic-ai", op, key="fk_wrong").startswith("ModelAuthenticationError: status_code: 401")
    assert refused.error("pydantic-ai", op, model="nobody").startswith("ModelNotFoundError: status_code: 404")


def test_a_stream_that_breaks_off_is_an_error_of_its_own(refused: Refusing) -> None:
    error = refused.error("pydantic-ai", "live_pydantic_ai.run_streamed", model="broken")
    assert error.startswith("Model")
    assert "connection lost" in error
