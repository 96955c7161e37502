"""ChatApi: what tells one provider's chat API from another, as data. Must not know any provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.core.event import Event
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES


class RequestBody(Protocol):
    """A request as the provider takes it."""

    def __call__(self, request: ToolCallRequest, /, *, stream: bool) -> dict[str, Any]: ...


class ReplyDecoder(Protocol):
    """A provider's messages as events; a whole answer is one message."""

    def feed(self, message: dict[str, Any], /) -> list[Event]: ...

    def close(self) -> list[Event]: ...


class Framing(Protocol):
    """How bytes become messages."""

    def feed(self, data: bytes, /) -> list[dict[str, Any]]: ...

    def close(self) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatApi:
    """One provider's API. The functions come from its dialect; the rest are facts about the provider."""

    name: str
    """The engine's name in receipts."""
    path: str
    """Where requests go, after the address."""
    label: str
    """The way through the engine, as receipts tell it."""
    request_body: RequestBody
    decoder: Callable[[ToolCallRequest], ReplyDecoder]
    framing: Callable[[], Framing]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    honours: frozenset[str] = ALL_CHOICES
    """The choices that the API has a word for and that the provider is known to keep."""
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    """Choices that it has no word for but that `request_body` says in another way, and what a receipt tells of it."""
    lacks: tuple[str, ...] = ()
    """Fields of a request that the API has no place for. They are not sent, and the reply says so."""
    parallel: bool = True
    """Whether the API can be told to make one call only."""
