"""The gateway's tool choice policy, for requests with tool_choice auto."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Reply, ToolCall
from ferrule.core.request import ChoiceMode, ChoicePolicy
from ferrule.server.config.config import Config, EngineConfig
from server.client import gateway_of, scripted_engine

TOOL = {"name": "get", "input_schema": {"type": "object"}}
USER = {"role": "user", "content": "x"}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "get", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "y"}]}


def mode(policy: ChoicePolicy, messages: list[Any], **more: Any) -> ChoiceMode:
    """What an engine behind a gateway with this policy goes by."""

    async def ask() -> ChoiceMode:
        engine = scripted_engine(Reply.of(ToolCall.of("get", {}, id="c")))
        config = Config(engines=(EngineConfig(name="e0", use="e0"),), tool_choice_policy=policy)
        async with gateway_of(engine, config=config) as client:
            body = {"messages": messages, "tools": [TOOL], "max_tokens": 9, **more}
            assert (await client.post("/v1/messages", body)).status == 200
        return engine.requests[0].choice.mode

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "policy, before, after",
    [
        (ChoicePolicy.AUTO, ChoiceMode.AUTO, ChoiceMode.AUTO),
        (ChoicePolicy.REQUIRED_FIRST_HOP, ChoiceMode.REQUIRED, ChoiceMode.AUTO),
        (ChoicePolicy.REQUIRED_ALWAYS, ChoiceMode.REQUIRED, ChoiceMode.REQUIRED),
    ],
)
def test_a_request_without_a_policy_uses_the_gateways(
    policy: ChoicePolicy, before: ChoiceMode, after: ChoiceMode
) -> None:
    assert mode(policy, [USER]) is before
    assert mode(policy, [USER, CALL, RESULT]) is after


def test_a_request_keeps_the_policy_and_the_choice_that_it_names() -> None:
    own = {"tool_choice_policy": "required_first_hop"}
    assert mode(ChoicePolicy.REQUIRED_ALWAYS, [USER, CALL, RESULT], **own) is ChoiceMode.AUTO
    assert mode(ChoicePolicy.REQUIRED_ALWAYS, [USER], tool_choice={"type": "none"}) is ChoiceMode.NONE
