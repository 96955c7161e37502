"""ChatApi: the differences between providers' chat APIs, as data. Must not know any provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.core.event import Event
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES


class RequestBody(Protocol):
    """Encodes a request as the provider's JSON body."""

    def __call__(self, request: ToolCallRequest, /, *, stream: bool) -> dict[str, Any]: ...


class ReplyDecoder(Protocol):
    """Decodes a provider's messages into events; an answer that is not streamed is one message."""

    def feed(self, message: dict[str, Any], /) -> list[Event]: ...

    def close(self) -> list[Event]: ...


class Framing(Protocol):
    """Splits a byte stream into messages."""

    def feed(self, data: bytes, /) -> list[dict[str, Any]]: ...

    def close(self) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatApi:
    """One provider's API. The functions come from its dialect; the rest are facts about the provider."""

    name: str
    """The engine's name in receipts."""
    path: str
    """The path of requests, after the address."""
    label: str
    """The API's name on receipts (`Receipt.path`)."""
    request_body: RequestBody
    decoder: Callable[[ToolCallRequest], ReplyDecoder]
    framing: Callable[[], Framing]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    honours: frozenset[str] = ALL_CHOICES
    """The kinds of choice that the API can express and that the provider follows."""
    workaround_notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Choices that the API cannot express but `request_body` encodes in another way, with the note for the receipt."""
    unsupported_fields: tuple[str, ...] = ()
    """Request fields that the API does not have. They are not sent, and a diagnostic says so."""
    parallel: bool = True
    """Whether the API can limit the model to one call per answer."""
