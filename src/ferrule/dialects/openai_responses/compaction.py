"""Compaction: the messages of the user, and a summary of everything else, instead of a long conversation.

OpenAI's service returns the summary encrypted. Here it is the text that a model wrote, in JSON and Base64 with a
prefix, so that the gateway needs to store nothing and another process can read it. It is no secret: the caller sent
the conversation that it sums up.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ferrule.core.event import Usage
from ferrule.core.json_text import dumps, loads
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role, Text
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.dialects.lenient_json import mapping
from ferrule.dialects.openai_responses.media import part_body
from ferrule.dialects.openai_responses.response_body import usage_body

_PREFIX = "ferrule1."
_TASK = (
    "Write a summary of this conversation. It will replace everything but the messages of the user, so the work must "
    "be able to continue from it alone. Say what was asked for, what was done and found out, which files, names and "
    "values matter, what was decided and why, and what remains to be done. Write the summary only, and call no tool."
)
_HEADING = "Summary of the conversation so far:\n"


def compaction_request(request: ToolCallRequest) -> ToolCallRequest:
    """Return the request for a summary. It begins as the conversation's own requests do, tools and all."""
    return replace(
        request,
        messages=(*request.messages, ChatMessage.user(_TASK)),
        tool_choice=ToolChoice.none(),
        tool_choice_policy=ChoicePolicy.AUTO,
        response_schema=None,
    )


def compaction_body(
    id: str, created: int, messages: Iterable[ChatMessage], summary: str, usage: Usage | None
) -> dict[str, Any]:
    """Return the shorter conversation, whose `output` is the next input."""
    output = [
        _user_item(f"msg_{id}_{at}", message)
        for at, message in enumerate(message for message in messages if message.role is Role.USER)
    ]
    compaction = {"id": f"cmp_{id}", "type": "compaction", "encrypted_content": seal_summary(summary)}
    head = {"id": id, "object": "response.compaction", "created_at": created}
    return {**head, "output": [*output, compaction], "usage": usage_body(usage or Usage(0, 0))}


def seal_summary(summary: str) -> str:
    return _PREFIX + base64.urlsafe_b64encode(dumps({"summary": summary}).encode()).decode()


def open_summary(content: str) -> str | None:
    """Return what the model reads of a compaction; None if another service made it."""
    if not content.startswith(_PREFIX):
        return None
    try:
        fields = mapping(loads(base64.urlsafe_b64decode(content.removeprefix(_PREFIX)).decode()))
    except (binascii.Error, ValueError, RecursionError):
        return None
    summary = fields.get("summary")
    return _HEADING + summary if isinstance(summary, str) else None


def _user_item(id: str, message: ChatMessage) -> dict[str, Any]:
    content = [part_body(part) for part in message.parts if isinstance(part, Text | Media)]
    return {"id": id, "type": "message", "status": "completed", "role": "user", "content": content}
