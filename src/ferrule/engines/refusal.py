"""What an engine's HTTP status means: whose fault it is, and whether asking again can help.

| status | error | for the caller of a gateway |
|---|---|---|
| 400, 413, 422 | `EngineRequestError` | 400: the request is at fault, and the same one fails again |
| 401, 402, 403, 407 | `EngineAccessError` | 502, not retryable: the operator's credentials are at fault |
| 404 | `EngineModelError` | 404: the operator's model or address is at fault, and no client retries it |
| 408, 504 | `EngineTimeoutError` | 504, retryable |
| 429 | `EngineRateLimitError` | 429 with the engine's `Retry-After` |
| 503, 529 | `EngineUnavailableError` | 503 with the engine's `Retry-After` |
| any other | `EngineError` | 502, not retryable |

The words by which a prompt is recognized as too long are those of OpenAI, Anthropic, vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.errors import (
    EngineAccessError,
    EngineError,
    EngineModelError,
    EngineRateLimitError,
    EngineRequestError,
    EngineTimeoutError,
    EngineUnavailableError,
)

TOO_LONG = "context_length_exceeded"
"""OpenAI's code for it, which agents know: they shorten the conversation and ask again."""

_ERRORS: Mapping[int, type[EngineError]] = {
    400: EngineRequestError,
    401: EngineAccessError,
    402: EngineAccessError,
    403: EngineAccessError,
    404: EngineModelError,
    407: EngineAccessError,
    408: EngineTimeoutError,
    413: EngineRequestError,
    422: EngineRequestError,
    429: EngineRateLimitError,
    503: EngineUnavailableError,
    504: EngineTimeoutError,
    # Anthropic's status for an overloaded service.
    529: EngineUnavailableError,
}
_TOO_LONG_WORDS = (
    "context_length_exceeded",
    "exceed_context_size",
    "available context size",
    "context length",
    "context window",
    "prompt is too long",
)
# "210000 tokens > 200000 maximum" (Anthropic), "context length is 4096 tokens. However, you requested 5000 tokens"
# (OpenAI, vLLM), "(5000 tokens) ... (4096 tokens)" (SGLang, llama.cpp), "your request has 5000 input tokens" (vLLM).
_TOKEN_COUNTS = re.compile(r"(\d{1,9}) (?:input |prompt )?tokens|> (\d{1,9}) maximum")
# An engine may write anything into `param`, so only the names of fields that a request can have are passed on.
_FIELDS = frozenset(
    {
        "frequency_penalty",
        "input",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "messages",
        "model",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
    }
)
_MAX_RETRY_SECONDS = 3600.0


def refusal_of(url: str, status: int, text: str, retry_after: str = "") -> EngineError:
    """Return the error for an answer with an error status. `text` is its body, and `retry_after` its header."""
    kind = _ERRORS.get(status, EngineError)
    code, param = "engine_refused" if kind is EngineError else "", ""
    if kind is EngineRequestError:
        code = TOO_LONG if any(words in text.lower() for words in _TOO_LONG_WORDS) else ""
        param = _field_of(text)
    error = kind(
        f"{url} answered {status}: {text}",
        code=code,
        upstream_status=status,
        upstream_body=text,
        retry_after=_seconds_of(retry_after),
        param=param,
    )
    if code == TOO_LONG:
        error.token_counts = _token_counts_of(text)
    return error


def _token_counts_of(text: str) -> tuple[int, int] | None:
    """The tokens of a prompt that is too long and of the context, if the engine's message has both.

    The prompt is the longer of the two: else it would have been taken.
    """
    counts = {int(found) for groups in _TOKEN_COUNTS.findall(text) for found in groups if found}
    return (max(counts), min(counts)) if len(counts) == 2 else None


def _field_of(text: str) -> str:
    """The request's field that an error in OpenAI's format names."""
    try:
        body = loads(text)
    except ValueError:
        return ""
    error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    param = cast("dict[str, Any]", error).get("param") if isinstance(error, dict) else None
    return param if isinstance(param, str) and param in _FIELDS else ""


def _seconds_of(header: str) -> float | None:
    """The seconds in a `Retry-After` header, which has a number or a date."""
    try:
        seconds = float(header) if header[:1].isdigit() else parsedate_to_datetime(header).timestamp() - time()
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), _MAX_RETRY_SECONDS)
