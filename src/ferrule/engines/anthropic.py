"""The `anthropic` engine: Anthropic's Messages API over HTTP, and every server that implements it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ferrule.core.ids import ANY_ID
from ferrule.dialects.anthropic.media import takes_media
from ferrule.dialects.anthropic.passthrough import API
from ferrule.dialects.anthropic.reply_decoder import ReplyDecoder
from ferrule.dialects.anthropic.request_encoder import (
    SAMPLING,
    count_request_body,
    request_body,
    request_headers,
)
from ferrule.dialects.json_stream import SseObjects
from ferrule.engines.chat.api import ChatApi
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.chat.media_kinds import anthropic_media_kinds
from ferrule.engines.engine import ALL_CHOICES
from ferrule.engines.http import DEFAULT_DEADLINES, Deadlines
from ferrule.errors import DefinitionError, UnsupportedError

ANTHROPIC = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"


@dataclass(frozen=True, slots=True)
class _Version:
    """How a version of the API expects the key, and whether it accepts sampling parameters."""

    key_header: str
    key_prefix: str
    takes_sampling: bool


VERSIONS = {
    "2023-06-01": _Version("x-api-key", "", True),
    "2026-10-21": _Version("Authorization", "Bearer ", False),
}


def anthropic(
    model: str,
    options: ChatOptions | None = None,
    *,
    url: str = ANTHROPIC,
    key: str | None = None,
    version: str = "2023-06-01",
    strict: bool = False,
    reasoning: bool = False,
    tool_search: bool | None = None,
    headers: Mapping[str, str] | None = None,
    deadlines: Deadlines = DEFAULT_DEADLINES,
) -> ChatEngine:
    """Make an engine on Anthropic, or on any server with its API at `url`.

    ANTHROPIC_API_KEY is used for Anthropic only. The default `version` is the one that all servers accept, and it
    accepts temperature, top_p and top_k. `reasoning` sends earlier thinking back, which only servers that do not
    require a signature accept. `tool_search` says that the server carries out Anthropic's tool search; by default only
    Anthropic does.
    """
    if version not in VERSIONS:
        raise DefinitionError(
            f"unknown version {version!r} of the Anthropic API", hint=f"Use one of: {', '.join(VERSIONS)}."
        )
    facts, address = VERSIONS[version], url.rstrip("/").removesuffix("/v1")
    key = key or (os.environ.get(KEY) if address == ANTHROPIC else None)
    if address == ANTHROPIC and not key:
        raise UnsupportedError("Anthropic needs an API key", code="missing_key", hint=f"Set {KEY}, or pass key=.")
    key_headers = {facts.key_header: facts.key_prefix + key} if key else {}
    api = ChatApi(
        name="anthropic",
        path="/v1/messages",
        model=model,
        label="messages",
        request_body=partial(
            request_body, model=model, strict=strict, reasoning=reasoning, sampling=facts.takes_sampling
        ),
        decoder=lambda request: ReplyDecoder(request.tools, make_id=ANY_ID.make, search=request.tool_search),
        framing=SseObjects,
        client_api=API,
        tool_search=address == ANTHROPIC if tool_search is None else tool_search,
        count_path="/v1/messages/count_tokens",
        count_body=partial(count_request_body, model=model, strict=strict, reasoning=reasoning),
        request_headers=request_headers,
        headers={"anthropic-version": version, **key_headers, **(headers or {})},
        honours=ALL_CHOICES - {"allowed"},
        unsupported_fields=("seed", *(() if facts.takes_sampling else SAMPLING)),
        takes_media=takes_media,
        media=None,
        find_media_kinds=anthropic_media_kinds(model),
    )
    return ChatEngine(address, api, options, deadlines)
