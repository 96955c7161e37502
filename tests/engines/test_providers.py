"""Cloud providers with OpenAI's chat API, from one table; the answers have the shapes of their documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engines.providers import QUICK, CannedResponse, call, chunk, generate, json_response, sse
from engines.tools import TAGS, WEATHER, make_request
from ferrule import ChatMessage, DefinitionError, EngineError, FinishReason, ToolCall, ToolChoice, load_engine
from ferrule.core.call import ToolResult
from ferrule.core.forward import ForwardApi
from ferrule.core.message import Role
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.engine_options import DEFAULT_OPTIONS, ENGINE_OPTIONS
from ferrule.engines.engine import Engine
from ferrule.engines.providers import PROVIDERS, provider_engine
from ferrule.errors import (
    EngineAccessError,
    EngineModelError,
    EngineRateLimitError,
    EngineRequestError,
    EngineUnavailableError,
    UnsupportedError,
)
from ferrule.server.router import Replica, RoutedEngine

GOOD = '{"city": "Paris"}'
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
_HEAD = {"id": "x-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def raw(*lines: str) -> CannedResponse:
    return CannedResponse(tuple(f"{line}\n\n".encode() for line in lines))


def data(value: Any) -> str:
    return f"data: {json.dumps(value)}"


def _whole_call(id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "get_weather", "arguments": GOOD}, **more}


def _stream(*deltas: dict[str, Any], reason: str = "tool_calls", **last: Any) -> CannedResponse:
    chunks = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, reason, **last)]
    return sse(*({**_HEAD, **one} for one in chunks), done=True)


# One documented stream of a call for each provider: what is peculiar about it is in the shape.
STREAMS: dict[str, CannedResponse] = {
    # The first chunk has no choice, but the results of the content filter.
    "azure": sse(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}], **_HEAD},
        {**_HEAD, **chunk(call("", id="call_a"))},
        {**_HEAD, **chunk(call(GOOD, name=None, id=None))},
        {**_HEAD, **chunk({}, "tool_calls")},
        {**_HEAD, "choices": [], "usage": USAGE},
        done=True,
    ),
    # Comments while the request waits, reasoning beside the content, usage in the last chunk.
    "deepseek": raw(
        ": keep-alive",
        data({**_HEAD, **chunk({"role": "assistant", "content": None, "reasoning_content": "Weather."})}),
        data({**_HEAD, **chunk({**call("", id="call_0_x"), "content": None})}),
        data({**_HEAD, **chunk(call(GOOD, name=None, id=None))}),
        data({**_HEAD, **chunk({"content": ""}, "tool_calls"), "usage": USAGE}),
        "data: [DONE]",
    ),
    "fireworks": _stream(call("", id="call_f"), call(GOOD, name=None, id=None), usage=USAGE),
    # The whole call in one piece with its signature, and "stop" as the reason.
    "gemini": sse(
        {
            **_HEAD,
            **chunk(
                {
                    "role": "assistant",
                    "tool_calls": [
                        _whole_call("", index=0, extra_content={"google": {"thought_signature": "c2lnbmF0dXJl"}})
                    ],
                },
                "stop",
            ),
            "usage": USAGE,
        },
        done=True,
    ),
    # The usage of the last chunk is also under x_groq.
    "groq": sse(
        {**_HEAD, **chunk({"role": "assistant", "content": None}), "x_groq": {"id": "req_1"}},
        {**_HEAD, **chunk({"tool_calls": [_whole_call("fk_1", index=0)]})},
        {**_HEAD, **chunk({}, "tool_calls"), "x_groq": {"id": "req_1", "usage": USAGE}},
        {**_HEAD, "choices": [], "usage": USAGE},
        done=True,
    ),
    # The call comes whole with the reason and the usage.
    "mistral": sse(
        {**_HEAD, **chunk({"role": "assistant", "content": ""})},
        {
            **_HEAD,
            **chunk({"content": "", "tool_calls": [_whole_call("D681PevKs", index=0)]}, "tool_calls"),
            "usage": USAGE,
        },
        done=True,
    ),
    # Comments while the host is found.
    "openrouter": raw(
        ": OPENROUTER PROCESSING",
        ": OPENROUTER PROCESSING",
        data({**_HEAD, "provider": "Host", **chunk({"role": "assistant", "content": ""})}),
        data({**_HEAD, "provider": "Host", **chunk(call(GOOD, id="call_o"))}),
        data({**_HEAD, "provider": "Host", **chunk({"content": ""}, "tool_calls", native_finish_reason="tool_use")}),
        data({**_HEAD, "choices": [], "usage": USAGE}),
        "data: [DONE]",
    ),
    "together": _stream(call(GOOD, id="call_t"), usage=USAGE),
    # The call comes whole in one piece; every chunk has the usage so far.
    "xai": sse(
        {**_HEAD, **chunk({"role": "assistant", "content": ""}), "usage": {**USAGE, "completion_tokens": 0}},
        {**_HEAD, **chunk({"tool_calls": [_whole_call("call_9", index=0)]}, "tool_calls"), "usage": USAGE},
        done=True,
    ),
}
# Documented errors: status, body, and what they become.
ERRORS: list[tuple[str, int, Any, type[EngineError]]] = [
    ("azure", 401, {"error": {"code": "401", "message": "Wrong key or endpoint."}}, EngineAccessError),
    ("azure", 404, {"error": {"code": "DeploymentNotFound", "message": "No such deployment."}}, EngineModelError),
    ("azure", 400, {"error": {"code": "content_filter", "param": "prompt", "status": 400}}, EngineRequestError),
    ("azure", 429, {"error": {"code": "429", "message": "Over the rate limit."}}, EngineRateLimitError),
    ("deepseek", 402, {"error": {"message": "No balance.", "type": "unknown_error"}}, EngineAccessError),
    ("deepseek", 422, {"error": {"message": "Bad parameter.", "code": "invalid"}}, EngineRequestError),
    ("deepseek", 503, {"error": {"message": "Overloaded."}}, EngineUnavailableError),
    ("fireworks", 412, {"error": {"message": "Suspended."}}, EngineError),
    ("gemini", 400, [{"error": {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}}], EngineRequestError),
    ("gemini", 429, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], EngineRateLimitError),
    ("groq", 400, {"error": {"code": "tool_use_failed", "failed_generation": "<f>"}}, EngineRequestError),
    ("groq", 413, {"error": {"message": "Too many tokens.", "type": "tokens"}}, EngineRequestError),
    ("mistral", 401, {"message": "Unauthorized", "request_id": "r"}, EngineAccessError),
    (
        "mistral",
        422,
        {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "x"]}]}},
        EngineRequestError,
    ),
    ("openrouter", 402, {"error": {"code": 402, "message": "No credits."}}, EngineAccessError),
    ("openrouter", 503, {"error": {"code": 503, "message": "No host takes this."}}, EngineUnavailableError),
    ("together", 429, {"error": {"message": "Slow down.", "type": "rate_limit"}}, EngineRateLimitError),
    ("xai", 400, {"code": "Client specified an invalid argument", "error": "Bad argument."}, EngineRequestError),
    ("xai", 403, {"code": "The caller does not have permission", "error": "No."}, EngineAccessError),
]


def factory(name: str, **options: Any) -> Callable[[str], Engine]:
    return lambda url: provider_engine("m", name=name, url=f"{url}/v1", deadlines=QUICK, **options)


def test_every_provider_has_a_stream_and_an_error() -> None:
    assert set(STREAMS) == {name for name, *_ in ERRORS} == set(PROVIDERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_documented_stream_becomes_a_checked_call(name: str) -> None:
    request = make_request(choice=ToolChoice.required())
    reply, requests = generate(factory(name, key="the-key"), [STREAMS[name]], request)
    assert [(one.name, one.arguments) for one in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert (reply.finish_reason, reply.diagnostics) == (FinishReason.TOOL_CALLS, ())
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (11, 7)
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.engine == name
    facts, sent = PROVIDERS[name], requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers[facts.key_header] == f"{facts.key_prefix}the-key"
    assert (sent.body["model"], sent.body[facts.max_tokens_field]) == ("m", 512)
    assert sent.body["tool_choice"] == "required"
    assert not set(facts.left_out) & sent.body.keys()


@pytest.mark.parametrize("name, status, body, kind", ERRORS)
def test_a_documented_error_has_its_class_and_keeps_what_was_said(
    name: str, status: int, body: Any, kind: type[EngineError]
) -> None:
    answers = [json_response(body, status)] * QUICK.tries
    with pytest.raises(kind) as raised:
        generate(factory(name, key="k"), answers, make_request())
    assert type(raised.value) is kind
    assert raised.value.upstream_status == status
    assert json.loads(raised.value.upstream_body) == body


def test_an_error_inside_of_openrouters_stream_is_the_answers_error() -> None:
    broken = {**_HEAD, "error": {"code": 502, "message": "Host gone."}, **chunk({"content": ""}, "error")}
    with pytest.raises(EngineError, match="Host gone"):
        generate(factory("openrouter", key="k"), [raw(": OPENROUTER PROCESSING", data(broken))], make_request())


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_key_of_the_environment_goes_only_to_the_provider_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = PROVIDERS[name]
    own = {} if facts.url else {"url": f"https://acme{facts.own_hosts[0]}"}
    monkeypatch.delenv(facts.key_variable, raising=False)
    with pytest.raises(UnsupportedError, match="API key") as missing:
        load_engine(f"{name}:m", **own)
    assert facts.key_variable in missing.value.hint
    monkeypatch.setenv(facts.key_variable, "secret")
    engine: Any = load_engine(f"{name}:m", **own)
    assert engine.api.headers == {facts.key_header: f"{facts.key_prefix}secret"}
    for elsewhere in ("http://127.0.0.1:1/v1", "https://openai.azure.com.evil.example/v1", "https://xopenai.azure.com"):
        other: Any = load_engine(f"{name}:m", url=elsewhere)
        assert other.api.headers == {}


def test_an_azure_resource_needs_its_address_and_gets_the_path_of_the_v1_api() -> None:
    with pytest.raises(DefinitionError, match="address of your resource"):
        load_engine("azure:m", key="k")
    for url in ("https://acme.openai.azure.com", "https://acme.openai.azure.com/openai/v1/"):
        engine: Any = load_engine("azure:m", url=url, key="k")
        assert engine._http.base == "https://acme.openai.azure.com/openai/v1"


HISTORY = (
    ChatMessage.user("Weather?"),
    ChatMessage(
        Role.ASSISTANT,
        (
            ToolCall.of("get_weather", {"city": "Rome"}, id="call_1"),
            ToolCall.of("get_weather", {"city": "Bern"}, id="D681PevKs"),
        ),
    ),
    ChatMessage(Role.TOOL, (ToolResult("call_1", "get_weather", "rain"),)),
    ChatMessage(Role.TOOL, (ToolResult("D681PevKs", "get_weather", "snow"),)),
)


def _sent_messages(name: str) -> list[dict[str, Any]]:
    _, requests = generate(factory(name, key="k"), [STREAMS[name]], replace(make_request(), messages=HISTORY))
    return requests[0].body["messages"]


def test_mistral_gets_ids_of_nine_letters_and_digits_and_results_stay_with_their_calls() -> None:
    messages = _sent_messages("mistral")
    ids = [one["id"] for one in messages[1]["tool_calls"]]
    assert all(re.fullmatch("[0-9A-Za-z]{9}", id) for id in ids)
    assert ids[1] == "D681PevKs"
    assert [one["tool_call_id"] for one in messages[2:]] == ids
    assert _sent_messages("mistral") == messages


def test_gemini_gets_the_placeholder_for_a_signature_with_the_first_call_of_a_turn() -> None:
    calls = _sent_messages("gemini")[1]["tool_calls"]
    signature = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [one.get("extra_content") for one in calls] == [signature, None]
    assert [one.get("extra_content") for one in _sent_messages("groq")[1]["tool_calls"]] == [None, None]


def _sent_body(name: str, request: ToolCallRequest) -> dict[str, Any]:
    _, requests = generate(factory(name, key="k"), [STREAMS[name]], request)
    return requests[0].body


def test_other_names_and_additions_are_in_the_body() -> None:
    request = replace(make_request(), seed=4)
    mistral = _sent_body("mistral", request)
    assert (mistral["random_seed"], "seed" in mistral, "stream_options" in mistral) == (4, False, False)
    assert _sent_body("openrouter", request)["provider"] == {"require_parameters": True}
    assert _sent_body("groq", request)["seed"] == 4


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_named_tool_is_named_where_that_is_documented_and_offered_alone_elsewhere(name: str) -> None:
    body = _sent_body(name, make_request(tools=(WEATHER, TAGS), choice=ToolChoice.one("get_weather")))
    names = [one["function"]["name"] for one in body["tools"]]
    if "one" in PROVIDERS[name].honours:
        assert (body["tool_choice"]["function"]["name"], len(names)) == ("get_weather", 2)
    else:
        assert (body["tool_choice"], names) == ("required", ["get_weather"])


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_field_that_the_api_does_not_have_is_not_sent_and_named(name: str) -> None:
    request = replace(make_request(), top_k=5, seed=3)
    reply, requests = generate(factory(name, key="k"), [STREAMS[name]], request)
    dropped = {"top_k", "seed"} & set(PROVIDERS[name].unsupported_fields)
    assert not dropped & requests[0].body.keys()
    assert all(field in " ".join(one.message for one in reply.diagnostics) for field in dropped)


def test_strict_is_refused_where_no_provider_documents_it() -> None:
    with pytest.raises(DefinitionError, match="no strict functions"):
        load_engine("groq:m?strict=true", key="k")
    assert _strict_of("mistral") is True


def _strict_of(name: str) -> Any:
    _, requests = generate(factory(name, key="k", strict=True), [STREAMS[name]], make_request())
    return requests[0].body["tools"][0]["function"].get("strict")


@pytest.mark.parametrize(
    "name, apis",
    [
        ("mistral", {ForwardApi.EMBEDDINGS}),
        ("gemini", {ForwardApi.EMBEDDINGS}),
        ("together", set(ForwardApi)),
        ("groq", set[ForwardApi]()),
    ],
)
def test_only_the_apis_that_a_provider_has_are_offered(name: str, apis: set[ForwardApi]) -> None:
    engine = RoutedEngine("m", [Replica("e", provider_engine("m", name=name, key="k"))])
    assert engine.forwarded_apis == apis


@pytest.mark.parametrize("name", ["openai", *PROVIDERS])
def test_no_cloud_lets_a_client_choose_a_dearer_tier(name: str) -> None:
    url = "https://x.openai.azure.com" if name == "azure" else None
    engine = load_engine(f"{name}:m", key="k", **({"url": url} if url else {}))
    assert "service_tier" not in engine.traits.options
    assert engine.traits.options <= DEFAULT_OPTIONS


def test_an_operator_who_names_the_tier_allows_it() -> None:
    assert "service_tier" in load_engine("openai:m?takes=service_tier", key="k").traits.options
    assert frozenset(ENGINE_OPTIONS) - DEFAULT_OPTIONS == {"service_tier"}
