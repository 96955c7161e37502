"""The body of a chat completion that is not streamed; `error_body` is that of an error.

The API has one text and one list of calls, so the order of the parts is lost. Only complete calls are in the body.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.reply import Reply
from ferrule.dialects.extension import Extension
from ferrule.dialects.openai_chat.chunk_encoder import reason_word
from ferrule.dialects.openai_chat.usage import usage_body
from ferrule.dialects.openai_error import error_body

__all__ = ["body_of", "error_body"]


def body_of(reply: Reply, *, id: str, model: str, created: int, uses_functions: bool = False) -> dict[str, Any]:
    """Return the body. `uses_functions`: the client uses the older API, which has only one call."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    calls = [call.as_openai() for call in reply.calls]
    if calls and uses_functions:
        message["function_call"] = calls[0]["function"]
    elif calls:
        message["tool_calls"] = calls
    if not calls and not reply.text:
        message["content"] = ""
    reason = reason_word(reply.finish_reason, uses_functions)
    return {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        **({"usage": usage_body(reply.usage)} if reply.usage else {}),
        **Extension.of(reply).as_field(),
    }
