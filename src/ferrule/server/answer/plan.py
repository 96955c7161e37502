"""What the APIs of one request and one answer share: the turn that a body asks for, and what is said to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.extension import KEY
from ferrule.server.answer.flatten import Aside, Rounds
from ferrule.server.answer.stream import Said, said_in
from ferrule.server.answer.turn import ToolOwner, turn_of
from ferrule.server.gateway import Gateway, new_conversation


def said_to(
    gateway: Gateway, body: dict[str, Any], request: ToolCallRequest, principal: Principal
) -> AsyncGenerator[Said]:
    """What is answered to a body, as it forms."""
    turn = turn_of(body, request, principal, has_tools=gateway.has_tools(principal))
    conversation = turn.resumes or new_conversation()
    rounds = Rounds(turn.tool_owner is ToolOwner.GATEWAY, conversation)
    return said_in(gateway.answer(turn.held_in(conversation)), rounds, gateway.config.limits)


def with_asides(told: dict[str, Any], asides: Iterable[Aside]) -> dict[str, Any]:
    """A whole answer with what happened beside it, under the extension's key."""
    happened = [aside.told for aside in asides]
    return {**told, KEY: {**told.get(KEY, {}), "asides": happened}} if happened else told
