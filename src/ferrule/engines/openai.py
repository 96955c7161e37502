"""The `openai` engine: OpenAI's chat and Responses APIs over HTTP, and every server that implements one of them.

What is true of OpenAI is not assumed of other servers. Some silently treat a named tool or a subset as "auto"
(llama-server), refuse a subset (vLLM), or know only the older name of the token limit. For those servers the choice is
expressed in a form that all of them honour.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ferrule.core.ids import ANY_ID
from ferrule.core.named_media import TakesMedia
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.engine_options import DEFAULT_OPTIONS, ENGINE_OPTIONS, OF_RESPONSES
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.openai_chat.media import takes_media as takes_in_chat
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder as ChatDecoder
from ferrule.dialects.openai_chat.request_encoder import request_body as chat_body
from ferrule.dialects.openai_responses.media import takes_media as takes_in_responses
from ferrule.dialects.openai_responses.reply_decoder import ReplyDecoder as ResponsesDecoder
from ferrule.dialects.openai_responses.request_encoder import request_body as responses_body
from ferrule.engines.chat.api import ChatApi, ReplyDecoder
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.chat.media_kinds import openai_media_kinds
from ferrule.engines.chat.token_count import count_openai_tokens
from ferrule.engines.engine import ALL_CHOICES
from ferrule.engines.http import DEFAULT_DEADLINES, Deadlines
from ferrule.engines.profile import honoured_choices, load_profile
from ferrule.errors import DefinitionError, UnsupportedError

OPENAI = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
# These three choices are plain strings, which every server handles. Servers differ on choices that are objects.
# OpenAI's list of models says nothing about it; its API documents these for all current models.
_MEDIA_AT_OPENAI = frozenset({"image", "file"})
_COMMON_CHOICES = frozenset({"auto", "none", "required"})


@dataclass(frozen=True, slots=True)
class _ApiFacts:
    path: str
    body: Callable[..., dict[str, Any]]
    decoder: Callable[[ToolCallRequest], ReplyDecoder]
    options: frozenset[str] = frozenset(ENGINE_OPTIONS)
    unsupported_fields: tuple[str, ...] = ()
    unsupported_at_openai: tuple[str, ...] = ()
    other_server_settings: tuple[tuple[str, str], ...] = ()
    takes_media: TakesMedia = takes_in_chat
    has_tool_search: bool = False


_APIS = {
    "chat": _ApiFacts(
        "/chat/completions",
        chat_body,
        lambda request: ChatDecoder(request.tools, make_id=ANY_ID.make),
        unsupported_at_openai=("top_k",),
        other_server_settings=(("max_tokens_field", "max_tokens"),),
    ),
    "responses": _ApiFacts(
        "/responses",
        responses_body,
        lambda request: ResponsesDecoder(request.tools, make_id=ANY_ID.make, search=request.tool_search),
        options=OF_RESPONSES,
        has_tool_search=True,
        unsupported_fields=("seed", "top_k", "stop"),
        takes_media=takes_in_responses,
    ),
}


def openai(
    model: str,
    options: ChatOptions | None = None,
    *,
    url: str = OPENAI,
    key: str | None = None,
    api: str = "chat",
    honours: Iterable[str] | None = None,
    strict: bool = False,
    reasoning: bool = False,
    takes: Iterable[str] | None = None,
    tool_search: bool | None = None,
    headers: Mapping[str, str] | None = None,
    deadlines: Deadlines = DEFAULT_DEADLINES,
) -> ChatEngine:
    """Make an engine on OpenAI, or on any server with its API at `url`.

    `api` is "chat" or "responses". OPENAI_API_KEY is used for OpenAI only; another server gets only the key that you
    pass here. `honours` are the kinds of choice that the server follows; by default this is what `ferrule doctor` found
    there, or else what all servers follow. `takes` are the options of a request's `engine_options` that the server has;
    by default OpenAI gets all but `service_tier`, which has a price, and another server none. `strict` asks the server
    to enforce the schemas. `reasoning` sends the model's reasoning of earlier turns back. `tool_search` says that the
    server carries out the tool search of the Responses API; by default only OpenAI does.
    """
    if api not in _APIS:
        raise DefinitionError(f"unknown OpenAI API {api!r}", hint=f"Use one of: {', '.join(_APIS)}.")
    facts, is_openai = _APIS[api], url.rstrip("/") == OPENAI
    key = key or (os.environ.get(KEY) if is_openai else None)
    if is_openai and not key:
        raise UnsupportedError("OpenAI needs an API key", code="missing_key", hint=f"Set {KEY}, or pass key=.")
    settings = {} if is_openai else dict(facts.other_server_settings)
    chat_api = ChatApi(
        name="openai",
        path=facts.path,
        model=model,
        forward_prefix="",
        label=api,
        request_body=partial(facts.body, model=model, strict=strict, reasoning=reasoning, **settings),
        decoder=facts.decoder,
        framing=SseObjects,
        headers={**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})},
        tool_search=facts.has_tool_search and (is_openai if tool_search is None else tool_search),
        honours=frozenset(honours) if honours is not None else _honoured_choices(url, model, api),
        options=facts.options & _options_taken(takes, is_openai=is_openai),
        count_at_server=None if is_openai else count_openai_tokens,
        prompt_body=partial(chat_body, model=model, strict=strict, reasoning=reasoning, stream=False),
        unsupported_fields=(*facts.unsupported_fields, *(facts.unsupported_at_openai if is_openai else ())),
        takes_media=facts.takes_media,
        media=_MEDIA_AT_OPENAI if is_openai else None,
        find_media_kinds=openai_media_kinds(model),
    )
    return ChatEngine(url, chat_api, options, deadlines)


def _options_taken(takes: Iterable[str] | None, *, is_openai: bool) -> frozenset[str]:
    if takes is None:
        return DEFAULT_OPTIONS if is_openai else frozenset()
    names = frozenset(takes)
    if unknown := names - ENGINE_OPTIONS.keys():
        raise DefinitionError(
            f"takes has unknown options: {', '.join(sorted(unknown))}",
            hint=f"Use some of: {', '.join(ENGINE_OPTIONS)}.",
            param="takes",
        )
    return names


def _honoured_choices(url: str, model: str, api: str) -> frozenset[str]:
    default = ALL_CHOICES if url.rstrip("/") == OPENAI else _COMMON_CHOICES
    # The probes use the chat API; their findings do not apply to another one.
    profile = load_profile(url, model) if api == "chat" else None
    return default if profile is None else honoured_choices(profile, default)
