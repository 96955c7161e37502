"""The `ollama` engine: Ollama's own API over HTTP.

Ollama has no `tool_choice`, and its compatible APIs ignore it. Its `format` field constrains an answer to a schema, so
a required call is sent as the schema of that call, and the receipt says so. Its templates show the model only part of a
schema, so every call is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ferrule.core.ids import ANY_ID
from ferrule.dialects.ndjson import NdjsonDecoder
from ferrule.dialects.ollama.forced_call import format_for
from ferrule.dialects.ollama.reply_decoder import ReplyDecoder
from ferrule.dialects.ollama.request_encoder import request_body, takes_media
from ferrule.engines.chat.api import ChatApi
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.chat.media_kinds import ollama_media_kinds
from ferrule.engines.http import DEFAULT_DEADLINES, Deadlines

OLLAMA = "http://127.0.0.1:11434"
_BY_FORMAT = "Ollama has no tool_choice, so the call was required through its format field"
_WORKAROUND_NOTES = {
    "none": "Ollama has no tool_choice, so no tools were offered",
    "required": _BY_FORMAT,
    "one": _BY_FORMAT,
}


def ollama(
    model: str,
    options: ChatOptions | None = None,
    *,
    url: str = OLLAMA,
    key: str | None = None,
    think: bool | str | None = None,
    reasoning: bool = False,
    headers: Mapping[str, str] | None = None,
    deadlines: Deadlines = DEFAULT_DEADLINES,
) -> ChatEngine:
    """Make an engine on an Ollama server.

    `think` turns thinking on or off or sets its level. `reasoning` sends the thinking of earlier turns back. The key is
    for servers that require one; a local Ollama does not.
    """
    key_headers = {"Authorization": f"Bearer {key}"} if key else {}
    api = ChatApi(
        name="ollama",
        path="/api/chat",
        model=model,
        forward_prefix="/v1",
        label="chat",
        request_body=partial(request_body, model=model, think=think, reasoning=reasoning),
        decoder=lambda request: ReplyDecoder(
            request.tools, make_id=ANY_ID.make, forced=format_for(request) is not None
        ),
        framing=NdjsonDecoder,
        headers={**key_headers, **(headers or {})},
        honours=frozenset({"auto"}),
        workaround_notes=_WORKAROUND_NOTES,
        parallel=False,
        takes_media=takes_media,
        media=None,
        find_media_kinds=ollama_media_kinds(model),
    )
    return ChatEngine(url, api, options, deadlines)
