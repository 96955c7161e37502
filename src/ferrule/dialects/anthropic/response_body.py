"""Bodies of a message that is not streamed, of a token count and of an error.

Only complete calls are among the blocks. The order of the parts is preserved.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.dialects.anthropic.messages import block
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.extension import KEY, Extension
from ferrule.errors import FerruleError

STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def body_of(reply: Reply, *, id: str, model: str) -> dict[str, Any]:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block(part) for part in reply.parts if not isinstance(part, ToolCall) or part.complete],
        "stop_reason": STOP_REASONS[reply.finish_reason],
        "stop_sequence": None,
        "usage": usage_body(reply.usage or Usage()),
        **Extension.of(reply).as_field(),
    }


def usage_body(usage: Usage) -> dict[str, int]:
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}


def count_body(prompt_tokens: int) -> dict[str, int]:
    """Return the body of a token count."""
    return {"input_tokens": prompt_tokens}


def error_body(error: FerruleError, request_id: str | None = None) -> dict[str, Any]:
    """Return the body of an error. As an event named `error` it also ends a stream.

    The API knows types and no codes: the error's own code is in the extension.
    """
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    shown = caller_error(error)
    return {
        "type": "error",
        "error": {"type": kind, "message": shown.text},
        "request_id": request_id or error.request_id or None,
        KEY: {"error": {"code": shown.code, "retryable": error.retryable}},
    }
