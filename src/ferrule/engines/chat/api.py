"""ChatApi: the differences between providers' chat APIs, as data. Must not know any provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.core.event import Event
from ferrule.core.forward import ForwardApi
from ferrule.core.named_media import TakesMedia, takes_none
from ferrule.core.request import ToolCallRequest
from ferrule.engines.chat.media_kinds import FindMediaKinds
from ferrule.engines.chat.token_count import CountTokens
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
    model: str
    """The provider's name for the model."""
    label: str
    """The API's name on receipts (`Receipt.path`)."""
    request_body: RequestBody
    decoder: Callable[[ToolCallRequest], ReplyDecoder]
    framing: Callable[[], Framing]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    request_headers: Callable[[ToolCallRequest], Mapping[str, str]] | None = None
    """The headers of one request, in addition."""
    honours: frozenset[str] = ALL_CHOICES
    """The kinds of choice that the API can express and that the provider follows."""
    workaround_notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Choices that the API cannot express but `request_body` encodes in another way, with the note for the receipt."""
    client_api: str = ""
    """As in `Traits.client_api`."""
    tool_search: bool = False
    """As in `Traits.tool_search`."""
    forward_prefix: str | None = None
    """What comes before OpenAI's paths for text completions and embeddings; None if the provider has none."""
    forwarded_apis: frozenset[ForwardApi] = frozenset(ForwardApi)
    """Which of the two it has, if it has a prefix for them."""
    count_path: str = ""
    """The path that counts the tokens of a body; empty if the API has none."""
    count_body: Callable[[ToolCallRequest], dict[str, Any]] | None = None
    options: frozenset[str] = frozenset()
    """As in `Traits.options`."""
    count_at_server: CountTokens | None = None
    """Asks the server to count, if it has an address for that beside the API."""
    prompt_body: Callable[[ToolCallRequest], dict[str, Any]] | None = None
    """Encodes a request as a body of OpenAI's chat API, which is what `count_at_server` takes."""
    unsupported_fields: tuple[str, ...] = ()
    """Request fields that the API does not have. They are not sent, and a diagnostic says so."""
    parallel: bool = True
    """Whether the API can limit the model to one call per answer."""
    takes_media: TakesMedia = takes_none
    """Whether the API has a part for an image, a recording or a file."""
    media: frozenset[str] | None = frozenset()
    """The kinds of media that the model takes; None asks the server when the first request has some."""
    find_media_kinds: FindMediaKinds | None = None
    """Asks the server."""
