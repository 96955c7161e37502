"""Ollama over HTTP, by its own API.

Ollama has no `tool_choice`, and its compatible APIs pass over one. Its `format` field holds an answer to a schema, so a
demanded call is the schema of that call; the receipt says so. Its templates see less of a schema than is in it, which
is why every call is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ferrule.core.ids import ANY_ID
from ferrule.dialects.ndjson import NdjsonDecoder
from ferrule.dialects.ollama.forced_call import format_for
from ferrule.dialects.ollama.reply_decoder import ReplyDecoder
from ferrule.dialects.ollama.request_encoder import request_body
from ferrule.engines.chat.api import ChatApi
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.http import PATIENT, Deadlines

OLLAMA = "http://127.0.0.1:11434"
_BY_FORMAT = "Ollama has no tool_choice, so the call was demanded through its format field"
_INSTEAD = {
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
    deadlines: Deadlines = PATIENT,
) -> ChatEngine:
    """An engine on an Ollama server. `think` asks for thinking, by a level or not at all; `reasoning` sends that of
    earlier turns back. The key is for servers that ask for one, which Ollama on one's own machine does not.
    """
    named = {"Authorization": f"Bearer {key}"} if key else {}
    api = ChatApi(
        name="ollama",
        path="/api/chat",
        label="chat",
        request_body=partial(request_body, model=model, think=think, reasoning=reasoning),
        decoder=lambda request: ReplyDecoder(
            request.tools, make_id=ANY_ID.make, forced=format_for(request) is not None
        ),
        framing=NdjsonDecoder,
        headers={**named, **(headers or {})},
        honours=frozenset({"auto"}),
        instead=_INSTEAD,
        parallel=False,
    )
    return ChatEngine(url, api, options, deadlines)
