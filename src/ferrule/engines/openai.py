"""OpenAI over HTTP, by its chat or its Responses API, and every server that speaks one of them.

What is known of OpenAI itself is not believed of other servers: many take a named tool or a subset for "auto" without a
word (llama-server), refuse a subset (vLLM), or know only the older name of the token limit. To those the choice is said
in the way that all of them keep.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ferrule.core.ids import ANY_ID
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder as ChatDecoder
from ferrule.dialects.openai_chat.request_encoder import request_body as chat_body
from ferrule.dialects.openai_responses.reply_decoder import ReplyDecoder as ResponsesDecoder
from ferrule.dialects.openai_responses.request_encoder import request_body as responses_body
from ferrule.engines.chat.api import ChatApi, ReplyDecoder
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.engine import ALL_CHOICES
from ferrule.engines.http import PATIENT, Deadlines
from ferrule.engines.profile import honoured_choices
from ferrule.engines.profile_file import load_profile
from ferrule.errors import DefinitionError, UnsupportedError

OPENAI = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
# The three words are strings in every server's code; what is an object is where they differ.
_KEPT_BY_ALL = frozenset({"auto", "none", "required"})


@dataclass(frozen=True, slots=True)
class _Api:
    path: str
    body: Callable[..., dict[str, Any]]
    decoder: Callable[[ToolCallRequest], ReplyDecoder]
    lacks: tuple[str, ...] = ()
    lacks_at_openai: tuple[str, ...] = ()
    settings_elsewhere: tuple[tuple[str, str], ...] = ()


_APIS = {
    "chat": _Api(
        "/chat/completions",
        chat_body,
        lambda request: ChatDecoder(request.tools, make_id=ANY_ID.make),
        lacks_at_openai=("top_k",),
        settings_elsewhere=(("max_tokens_field", "max_tokens"),),
    ),
    "responses": _Api(
        "/responses",
        responses_body,
        lambda request: ResponsesDecoder(request.tools, make_id=ANY_ID.make),
        lacks=("seed", "top_k", "stop"),
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
    headers: Mapping[str, str] | None = None,
    deadlines: Deadlines = PATIENT,
) -> ChatEngine:
    """An engine on OpenAI, or on whatever speaks its API at `url`.

    `api` is "chat" or "responses". The key is taken from OPENAI_API_KEY for OpenAI itself only: another server is sent
    the key that it is given here. `honours` are the choices that the server is known to keep; left out, what `ferrule
    doctor` has found there counts, and without that what is known of all servers. `strict` asks it to hold arguments to
    the schemas, `reasoning` sends back what the model thought in earlier turns.
    """
    if api not in _APIS:
        raise DefinitionError(f"OpenAI has no API {api!r}", hint=f"Use one of: {', '.join(_APIS)}.")
    facts, is_openai = _APIS[api], url.rstrip("/") == OPENAI
    key = key or (os.environ.get(KEY) if is_openai else None)
    if is_openai and not key:
        raise UnsupportedError("OpenAI needs a key", code="missing_key", hint=f"Set {KEY}, or pass key=.")
    settings = {} if is_openai else dict(facts.settings_elsewhere)
    spoken = ChatApi(
        name="openai",
        path=facts.path,
        label=api,
        request_body=partial(facts.body, model=model, strict=strict, reasoning=reasoning, **settings),
        decoder=facts.decoder,
        framing=SseObjects,
        headers={**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})},
        honours=frozenset(honours) if honours is not None else _honours(url, model, api),
        lacks=(*facts.lacks, *(facts.lacks_at_openai if is_openai else ())),
    )
    return ChatEngine(url, spoken, options, deadlines)


def _honours(url: str, model: str, api: str) -> frozenset[str]:
    believed = ALL_CHOICES if url.rstrip("/") == OPENAI else _KEPT_BY_ALL
    # The probes speak the chat API; what they saw says nothing of another one.
    profile = load_profile(url, model) if api == "chat" else None
    return believed if profile is None else honoured_choices(profile, believed)
