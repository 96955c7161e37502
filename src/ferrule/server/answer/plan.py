"""Shared by the APIs with one request and one answer: the turn that a body requests, and its events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.extension import KEY
from ferrule.server.answer.flatten import ExtensionEvent, RoundFlattener
from ferrule.server.answer.stream import AnswerEvent, flatten_with_deadlines
from ferrule.server.answer.turn import ToolOwner, turn_of
from ferrule.server.gateway import Gateway, new_conversation_id


def answer_events(
    gateway: Gateway, body: dict[str, Any], request: ToolCallRequest, principal: Principal
) -> AsyncGenerator[AnswerEvent]:
    """Answer a request body and yield the events of the answer."""
    turn = turn_of(body, request, principal, has_tools=gateway.has_tools(principal))
    conversation = turn.resumes or new_conversation_id()
    flattener = RoundFlattener(turn.tool_owner is ToolOwner.GATEWAY, conversation)
    return flatten_with_deadlines(
        gateway.answer(turn.with_conversation(conversation)), flattener, gateway.config.limits
    )


def with_extension_events(body: dict[str, Any], events: Iterable[ExtensionEvent]) -> dict[str, Any]:
    """Return the body of an answer with its extension events under the extension's key."""
    data = [aside.data for aside in events]
    return {**body, KEY: {**body.get(KEY, {}), "events": data}} if data else body
