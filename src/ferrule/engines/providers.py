"""Engines at clouds with OpenAI's chat API, such as Azure, Gemini, Groq, Mistral and OpenRouter.

Each is one entry of `PROVIDERS`; there is no code for any of them. The facts are from the providers' public
documentation, and Ferrule is tested with answers of the documented shapes, never with the services themselves.
`docs/reference/providers.md` is made from the table.

Gemini is reached through its OpenAI-compatible API, not through its own `generateContent`: it takes the same models and
tools, and one dialect less can be wrong.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ferrule.core.forward import ForwardApi
from ferrule.core.ids import ANY_ID
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.engine_options import DEFAULT_OPTIONS
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.openai_chat.media import takes_media
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder
from ferrule.dialects.openai_chat.request_encoder import request_body
from ferrule.engines.chat.api import ChatApi
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.chat.media_kinds import openai_media_kinds
from ferrule.engines.engine import ALL_CHOICES
from ferrule.engines.http import DEFAULT_DEADLINES, Deadlines
from ferrule.errors import DefinitionError, UnsupportedError

_NAMED_TOOL = frozenset({"auto", "none", "required", "one"})
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})
_FORWARDS = frozenset(ForwardApi)
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The facts about one provider."""

    title: str
    url: str
    """The address, up to `/chat/completions`. Empty if each customer has one of its own."""
    key_variable: str
    """The environment variable with the key. It is used only for the provider's own addresses."""
    documentation: str
    """Where the facts are from."""
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    own_hosts: tuple[str, ...] = ()
    """How the hosts of customers end, if each has an address of its own."""
    own_path: str = ""
    """The path of such an address, if it is left out."""
    honours: frozenset[str] = _NAMED_TOOL
    """The kinds of choice that are documented. Others are expressed by the tools that are offered."""
    parallel: bool = True
    """Whether `parallel_tool_calls` is documented."""
    takes_strict: bool = False
    """Whether `strict` in a function is documented."""
    max_tokens_field: str = "max_tokens"
    options: frozenset[str] = frozenset()
    """The options of `engine_options` that are documented, without those that have a price."""
    unsupported_fields: tuple[str, ...] = ("top_k",)
    """Fields of a request that the API does not have. They are not sent, and a diagnostic says so."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fields of the body that have another name."""
    left_out: tuple[str, ...] = ()
    """Fields of the body that the provider refuses and does not need."""
    added: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that are added to every body."""
    call_id_length: int = 0
    """If the ids of calls must have exactly so many letters and digits, their number. Others are replaced."""
    call_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that are added to the first call of each turn in the history."""
    forwards: frozenset[ForwardApi] = frozenset()
    """Which of text completions and embeddings it has at OpenAI's paths."""
    note: str = ""


PROVIDERS: Mapping[str, Provider] = {
    "azure": Provider(
        title="Azure OpenAI",
        url="",
        key_variable="AZURE_OPENAI_API_KEY",
        documentation="https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle",
        key_header="api-key",
        key_prefix="",
        own_hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        own_path="/openai/v1",
        honours=ALL_CHOICES,
        takes_strict=True,
        options=DEFAULT_OPTIONS,
        max_tokens_field="max_completion_tokens",
        forwards=_FORWARDS,
        note="The v1 API, without api-version. The model is the name of your deployment; `url` is your resource.",
    ),
    "deepseek": Provider(
        title="DeepSeek",
        url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
        documentation="https://api-docs.deepseek.com/api/create-chat-completion",
        options=_PENALTIES,
        parallel=False,
        unsupported_fields=("top_k", "seed", "response_schema"),
        left_out=("parallel_tool_calls",),
        note="It has no JSON Schema for answers, so they are only validated.",
    ),
    "fireworks": Provider(
        title="Fireworks",
        url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        documentation="https://docs.fireworks.ai/api-reference/post-chatcompletions",
        options=_PENALTIES | {"logit_bias", "reasoning_effort"},
        parallel=False,
        unsupported_fields=(),
        left_out=("parallel_tool_calls",),
        forwards=_FORWARDS,
    ),
    "gemini": Provider(
        title="Google Gemini",
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variable="GEMINI_API_KEY",
        documentation="https://ai.google.dev/gemini-api/docs/openai",
        honours=frozenset({"auto", "none", "required"}),
        options=frozenset({"reasoning_effort"}),
        parallel=False,
        unsupported_fields=("top_k", "seed"),
        left_out=("parallel_tool_calls",),
        call_fields={"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}},
        forwards=frozenset({ForwardApi.EMBEDDINGS}),
        note=(
            "Its OpenAI-compatible API. Gemini 3 refuses earlier calls without the signature of its thinking, which "
            "this route does not keep: the documented placeholder is sent, and that thinking is not seen again."
        ),
    ),
    "groq": Provider(
        title="Groq",
        url="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
        documentation="https://console.groq.com/docs/openai",
        options=frozenset({"reasoning_effort"}),
        max_tokens_field="max_completion_tokens",
    ),
    "mistral": Provider(
        title="Mistral",
        url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        documentation="https://docs.mistral.ai/api/",
        options=_PENALTIES | {"prediction"},
        takes_strict=True,
        renamed={"seed": "random_seed"},
        # Unknown fields are refused with 422. The usage comes with the last chunk without being asked for.
        left_out=("stream_options",),
        call_id_length=9,
        forwards=frozenset({ForwardApi.EMBEDDINGS}),
        note="It has embeddings at OpenAI's path and no text completions there.",
    ),
    "openrouter": Provider(
        title="OpenRouter",
        url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        documentation="https://openrouter.ai/docs/api-reference/overview",
        options=_PENALTIES | {"logit_bias", "prediction", "reasoning_effort", "verbosity"},
        unsupported_fields=(),
        # Without it a request goes to hosts of the model that ignore what they do not know, such as tool_choice.
        added={"provider": {"require_parameters": True}},
        forwards=_FORWARDS,
        note="Only hosts that support all parameters of a request are used (require_parameters).",
    ),
    "together": Provider(
        title="Together",
        url="https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        documentation="https://docs.together.ai/reference/chat-completions-1",
        options=_PENALTIES | {"logit_bias", "reasoning_effort"},
        parallel=False,
        unsupported_fields=(),
        left_out=("parallel_tool_calls",),
        forwards=_FORWARDS,
    ),
    "xai": Provider(
        title="xAI",
        url="https://api.x.ai/v1",
        key_variable="XAI_API_KEY",
        documentation="https://docs.x.ai/docs/api-reference",
        options=frozenset({"reasoning_effort"}),
        max_tokens_field="max_completion_tokens",
    ),
}


def provider_engine(
    model: str,
    options: ChatOptions | None = None,
    *,
    name: str,
    url: str | None = None,
    key: str | None = None,
    strict: bool = False,
    reasoning: bool = False,
    deadlines: Deadlines = DEFAULT_DEADLINES,
) -> ChatEngine:
    """Make an engine at the provider of that name in `PROVIDERS`.

    The key is the given one, or that in the provider's environment variable if the address is the provider's own.
    """
    facts = PROVIDERS[name]
    address = _address_of(name, facts, url)
    is_own = address == facts.url or _host_of(address).endswith(facts.own_hosts or ("\0",))
    key = key or (os.environ.get(facts.key_variable) if is_own else None)
    if is_own and not key:
        raise UnsupportedError(
            f"{facts.title} needs an API key", code="missing_key", hint=f"Set {facts.key_variable}, or pass key=."
        )
    if strict and not facts.takes_strict:
        raise DefinitionError(f"{facts.title} has no strict functions", hint="Leave out strict.", param="strict")
    api = ChatApi(
        name=name,
        path="/chat/completions",
        model=model,
        forward_prefix="" if facts.forwards else None,
        forwarded_apis=facts.forwards,
        label="chat",
        request_body=partial(provider_body, facts=facts, model=model, strict=strict, reasoning=reasoning),
        decoder=lambda request: ReplyDecoder(request.tools, make_id=ANY_ID.make),
        framing=SseObjects,
        headers={facts.key_header: facts.key_prefix + key} if key else {},
        honours=facts.honours,
        options=facts.options,
        unsupported_fields=facts.unsupported_fields,
        parallel=facts.parallel,
        takes_media=takes_media,
        media=None,
        find_media_kinds=openai_media_kinds(model),
    )
    return ChatEngine(address, api, options, deadlines)


def provider_body(
    request: ToolCallRequest,
    *,
    stream: bool,
    facts: Provider,
    model: str,
    strict: bool = False,
    reasoning: bool = False,
) -> dict[str, Any]:
    """Return the body of OpenAI's chat API with what is different at the provider."""
    body = request_body(
        request,
        model=model,
        stream=stream,
        strict=strict,
        reasoning=reasoning,
        max_tokens_field=facts.max_tokens_field,
    )
    for name in facts.left_out:
        body.pop(name, None)
    for name, theirs in facts.renamed.items():
        if name in body:
            body[theirs] = body.pop(name)
    for message in body["messages"]:
        _adapt_calls(message, facts)
    return {**body, **facts.added}


def _adapt_calls(message: dict[str, Any], facts: Provider) -> None:
    calls: list[dict[str, Any]] = message.get("tool_calls", [])
    if calls and facts.call_fields:
        calls[0] = {**calls[0], **facts.call_fields}
    if facts.call_id_length:
        for call in calls:
            call["id"] = _call_id(call["id"], facts.call_id_length)
        if "tool_call_id" in message:
            message["tool_call_id"] = _call_id(message["tool_call_id"], facts.call_id_length)


def _call_id(id: str, length: int) -> str:
    """The id, or one in its place, the same each time: a call and its result stay together."""
    if len(id) == length and id.isascii() and id.isalnum():
        return id
    number = int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest())
    letters: list[str] = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


def _address_of(name: str, facts: Provider, url: str | None) -> str:
    address = (url or facts.url).rstrip("/")
    if not address:
        raise DefinitionError(
            f"{facts.title} needs the address of your resource",
            hint=f"Write {name}:MODEL?url=https://RESOURCE{facts.own_hosts[0]}",
            param="url",
        )
    return address + facts.own_path if not urlsplit(address).path else address


def _host_of(address: str) -> str:
    return urlsplit(address).hostname or ""
