"""Bodies of a message that is not streamed, of a token count and of an error.

Only complete calls are among the blocks. The order of the parts is preserved.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.dialects.anthropic.messages import blocks
from ferrule.dialects.anthropic.search_blocks import result_block, use_block
from ferrule.dialects.caller_error import TOO_LONG, caller_error
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
        "content": _content(reply),
        **stop_fields(reply.finish_reason, reply.stop),
        "usage": usage_body(reply.usage or Usage()),
        **Extension.of(reply).as_field(),
    }


def _content(reply: Reply) -> list[dict[str, Any]]:
    """Return the blocks of a reply, with the searches that the client declared where they were made."""
    searches = [(place, search) for place, search in reply.searches if search.declared]
    content: list[dict[str, Any]] = []
    for place in range(len(reply.parts) + 1):
        for _, search in (one for one in searches if one[0] == place):
            content += [use_block(search), result_block(search)]
        for part in reply.parts[place : place + 1]:
            if not isinstance(part, ToolCall) or part.complete:
                content += blocks(part)
    return content


def stop_fields(reason: FinishReason, stop: str) -> dict[str, str | None]:
    """Return why an answer ended, and the stop string that ended it, if one did."""
    if reason is FinishReason.STOP and stop:
        return {"stop_reason": "stop_sequence", "stop_sequence": stop}
    return {"stop_reason": STOP_REASONS[reason], "stop_sequence": None}


def usage_body(usage: Usage) -> dict[str, int]:
    """Return the token counts. `input_tokens` are those that were read: this API counts the cached ones beside them."""
    cached = {"cache_read_input_tokens": usage.cached_tokens} if usage.cached_tokens else {}
    # Some engines do not count the cached ones among those of the prompt.
    read = max(usage.prompt_tokens - usage.cached_tokens, 0)
    return {"input_tokens": read, "output_tokens": usage.completion_tokens, **cached}


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
        "error": {"type": kind, "message": _too_long(error) if shown.code == TOO_LONG else shown.text},
        "request_id": request_id or error.request_id or None,
        KEY: {"error": {"code": shown.code, "retryable": error.retryable}},
    }


def _too_long(error: FerruleError) -> str:
    """Return Anthropic's own words and nothing else: by them Claude Code and others know that they have to compact."""
    if error.token_counts is None:
        return "prompt is too long"
    return "prompt is too long: {} tokens > {} maximum".format(*error.token_counts)
