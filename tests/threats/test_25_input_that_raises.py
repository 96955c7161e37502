"""Row 25: whatever a client sends or a tool returns is answered, repaired or refused, and never an internal error."""

from __future__ import annotations

import asyncio

import pytest

import sampling
from lab.inputs.run import send_inputs
from lab.inputs.shapes import APIS
from server.keys import bearer
from threats.gateway_fixture import ANN, CHAT, threat_gateway

# Each API gets more in tests/server/test_inputs.py, and 10,000 in `scripts/long inputs`.
BODIES = 60
MALFORMED = ('{"a":', "", "not JSON", "[1, 2]", '{"a": NaN}', '{"a": ' + "9" * 5_000 + "}", "[" * 100_000, '"\ud800"')


def test_no_mutated_body_is_an_internal_error_on_any_api() -> None:
    findings = asyncio.run(send_inputs(BODIES, seed=f"threat {sampling.seed()}"))
    assert not findings.failures, "\n".join(map(str, findings.failures))
    assert all(findings.statuses[api].total() == BODIES for api in APIS)


@pytest.mark.parametrize("arguments", MALFORMED, ids=[text[:8] or "empty" for text in MALFORMED[:-1]] + ["surrogate"])
def test_a_malformed_call_in_the_history_does_not_block_the_conversation(arguments: str) -> None:
    async def scenario() -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}}
        history = [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "invalid arguments"},
        ]
        async with threat_gateway("Done.") as client:
            response = await client.post(CHAT, {"model": "e0", "messages": history}, bearer(ANN))
        assert response.status == 200
        assert [one["code"] for one in response.json()["ferrule"]["diagnostics"]] == ["history_repaired"]

    asyncio.run(scenario())
