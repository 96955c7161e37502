"""Sampling: a server asks for an answer of a model. The request and the answer are plain values.

It is off unless the server's entry in mcp.json names a model (`"sampling": {"model": "smol"}`). The request is outside
text: what becomes of it is up to the callback, which asks a person first (`run.sampling`). It never brings tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ferrule.core.context import CallContext
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Role, Text
from ferrule.errors import DefinitionError, UnsupportedError
from ferrule.sources.mcp.options import SamplingLimits

_MAX_MESSAGES, _MAX_CHARS, _MAX_STOPS, _MAX_STOP = 100, 200_000, 4, 100
_ROLES: Mapping[str, Role] = {"user": Role.USER, "assistant": Role.ASSISTANT}


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """What a server asks a model. `limits` are those of the server's configuration, and `max_tokens` is within them."""

    server: str
    messages: tuple[ChatMessage, ...]
    limits: SamplingLimits
    max_tokens: int
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    context: CallContext | None = None
    """The call that it belongs to; None if several calls run, because the protocol does not say which."""
    callers: tuple[CallContext, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """The model's answer. `reason` is `endTurn`, `maxTokens` or `stopSequence`."""

    text: str
    model: str
    reason: str = "endTurn"


Sampler: TypeAlias = Callable[[SamplingRequest], Awaitable[Sample]]
"""Answers a request, or raises a `FerruleError` whose message the server reads."""


async def refuse(request: SamplingRequest) -> Sample:
    """Refuse: the default when there is no model to ask."""
    raise UnsupportedError("this client has no model for servers", hint="Pass `sample` to the source.")


def read_request(
    server: str, params: Mapping[str, Any], limits: SamplingLimits, callers: tuple[CallContext, ...] = ()
) -> SamplingRequest:
    """Read the parameters of `sampling/createMessage`. Raises `DefinitionError` for what is not supported."""
    if params.get("tools") or params.get("toolChoice"):
        raise DefinitionError("a request for a sample may not bring tools", hint="Leave tools out.")
    given = cast("list[dict[str, Any]]", params.get("messages") or [])
    if not 1 <= len(given) <= _MAX_MESSAGES:
        raise DefinitionError(f"{len(given)} messages are too few or too many", hint=f"Send 1 to {_MAX_MESSAGES}.")
    system = params.get("systemPrompt") or ""
    messages = [ChatMessage(Role.SYSTEM, system)] if system else []
    messages += [ChatMessage(_ROLES[one["role"]], tuple(_parts(one["content"]))) for one in given]
    if sum(len(message.content) for message in messages) > _MAX_CHARS:
        raise DefinitionError(
            f"the messages have more than {_MAX_CHARS} characters", code="too_large", hint="Send fewer."
        )
    stop = tuple(cast("list[str]", params.get("stopSequences") or []))
    if len(stop) > _MAX_STOPS or any(not one or len(one) > _MAX_STOP for one in stop):
        raise DefinitionError("the stop sequences are too many or too long", hint=f"Send at most {_MAX_STOPS}.")
    asked = params.get("maxTokens") or limits.max_tokens
    return SamplingRequest(
        server,
        tuple(messages),
        limits,
        max(1, min(int(asked), limits.max_tokens)),
        params.get("temperature"),
        stop,
        callers[0] if len(callers) == 1 else None,
        callers,
    )


def _parts(content: object) -> list[Part]:
    blocks = cast("list[object]", content) if isinstance(content, list) else [content]
    return [_part(cast("dict[str, Any]", block)) for block in blocks]


def _part(block: Mapping[str, Any]) -> Part:
    match block.get("type"):
        case "text":
            return Text(str(block.get("text", "")))
        case "image" | "audio" as kind:
            return Media(kind, str(block.get("mimeType") or ""), data=str(block.get("data") or ""))
        case other:
            raise DefinitionError(f"a message of a sample may not contain {other!r:.40}", hint="Send text or an image.")
