"""Token counts for OpenAI's chat API."""

from __future__ import annotations

from typing import Any

from ferrule.core.event import Usage


def usage_body(usage: Usage) -> dict[str, Any]:
    details = {"prompt_tokens_details": {"cached_tokens": usage.cached_tokens}} if usage.cached_tokens else {}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        **details,
    }
