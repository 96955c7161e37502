"""OpenAI's two APIs, on OpenAI and on other servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines.providers import QUICK, call, chunk, generate, json_response, sse
from engines.tools import TAGS, WEATHER, make_request
from ferrule import DefinitionError, FinishReason, ToolChoice, Usage
from ferrule.core.call import How
from ferrule.engines.chat.engine import ChatEngine
from ferrule.engines.openai import openai
from ferrule.engines.profile import Finding, Profile, Verdict, save_profile
from ferrule.errors import UnsupportedError

GOOD = '{"city": "Paris"}'
CHAT = sse(chunk(call(GOOD)), chunk({}, "tool_calls"), done=True)


def engine_factory(**settings: Any) -> Callable[[str], ChatEngine]:
    return lambda url: openai("m", url=f"{url}/v1", deadlines=QUICK, **settings)


def test_the_request_is_the_chat_apis_with_the_key_and_the_model() -> None:
    reply, requests = generate(engine_factory(key="secret"), [CHAT], replace(make_request(), model="another"))
    request_sent = requests[0]
    assert request_sent.path == "/v1/chat/completions"
    assert request_sent.headers["Authorization"] == "Bearer secret"
    assert (request_sent.body["model"], request_sent.body["stream"], request_sent.body["max_tokens"]) == (
        "m",
        True,
        512,
    )
    assert request_sent.body["tools"][0]["function"]["name"] == "get_weather"
    assert reply.calls[0].arguments == {"city": "Paris"}


def test_another_server_is_not_sent_the_key_for_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    _, requests = generate(engine_factory(), [CHAT], make_request())
    assert "Authorization" not in requests[0].headers


def test_openai_itself_needs_a_key_and_takes_it_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UnsupportedError, match="key"):
        openai("m")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert openai("m").api.headers == {"Authorization": "Bearer secret"}


def test_openai_itself_gets_every_choice_and_the_newer_name_of_the_token_limit() -> None:
    api = openai("m", key="k").api
    assert {"one", "allowed"} <= api.honours
    body = api.request_body(make_request(choice=ToolChoice.one("get_weather")), stream=True)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert body["max_completion_tokens"] == 512
    assert "top_k" in api.unsupported_fields


def test_a_named_tool_is_required_of_other_servers_by_offering_no_other() -> None:
    request = make_request(tools=(WEATHER, TAGS), choice=ToolChoice.one("get_weather"))
    reply, requests = generate(engine_factory(), [CHAT], request)
    body = requests[0].body
    assert (body["tool_choice"], [tool["function"]["name"] for tool in body["tools"]]) == ("required", ["get_weather"])
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.notes == ("the tool was required by offering no other",)


def test_a_server_that_honours_a_named_tool_gets_its_name() -> None:
    request = make_request(tools=(WEATHER, TAGS), choice=ToolChoice.one("get_weather"))
    _, requests = generate(engine_factory(honours=("auto", "none", "required", "one")), [CHAT], request)
    assert requests[0].body["tool_choice"]["function"]["name"] == "get_weather"
    assert len(requests[0].body["tools"]) == 2


def _item(kind: str, arguments: str) -> dict[str, Any]:
    item = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": arguments}
    return {"type": f"response.output_item.{kind}", "output_index": 0, "item": item}


def _response(arguments: str) -> dict[str, Any]:
    usage = {"input_tokens": 4, "output_tokens": 2}
    return {"object": "response", "status": "completed", "output": [_item("done", arguments)["item"]], "usage": usage}


def test_the_responses_api_works_and_its_calls_are_repaired_alike() -> None:
    pieces = [{"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"city": 5}'}]
    last = {"type": "response.completed", "response": _response('{"city": 5}')}
    answer = sse(_item("added", ""), *pieces, _item("done", '{"city": 5}'), last, is_named=True)
    reply, requests = generate(
        engine_factory(api="responses"), [answer, json_response(_response(GOOD))], make_request()
    )
    assert [request_sent.path for request_sent in requests] == ["/v1/responses"] * 2
    assert (requests[0].body["store"], requests[0].body["max_output_tokens"]) == (False, 512)
    assert requests[1].body["input"][-2:][1]["output"].startswith("Error: invalid_arguments: /city")
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.REPAIRED, "responses")
    assert (reply.calls[0].id, reply.calls[0].function.arguments) == ("c1", GOOD)
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(8, 4))


def test_fields_that_the_responses_api_lacks_are_reported() -> None:
    last = {"type": "response.completed", "response": _response(GOOD)}
    reply, _ = generate(
        engine_factory(api="responses"), [sse(last, is_named=True)], replace(make_request(), seed=1, stop=("x",))
    )
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_sent"]
    assert "seed, stop" in reply.diagnostics[0].message


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(DefinitionError, match="assistants"):
        openai("m", key="k", api="assistants")


@pytest.mark.parametrize(
    "verdict, is_honoured", [(Verdict.HONOURED, True), (Verdict.IGNORED, False), (Verdict.PARTLY, False)]
)
def test_the_doctors_findings_override_the_defaults(
    verdict: Verdict, is_honoured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    findings = tuple(Finding(name, verdict, "seen") for name in ("required", "named"))
    save_profile(Profile("http://127.0.0.1:1/v1", "m", "2026-01-31", findings))
    api = openai("m", url="http://127.0.0.1:1").api
    assert (("required" in api.honours), ("one" in api.honours)) == (is_honoured, is_honoured)
    assert "none" in api.honours
    assert openai("another", url="http://127.0.0.1:1").api.honours == {"auto", "none", "required"}
    assert openai("m", url="http://127.0.0.1:1", api="responses").api.honours == {"auto", "none", "required"}


def test_required_is_not_sent_to_a_server_that_ignores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    url = "http://127.0.0.1:1"
    save_profile(Profile(url, "m", "2026-01-31", (Finding("required", Verdict.IGNORED, "prose"),)))
    with pytest.raises(UnsupportedError, match="required"):
        openai("m", url=url).generate(make_request(choice=ToolChoice.required()))


def test_receipts_name_what_the_client_asked_for_and_what_the_api_lacks() -> None:
    last = {"type": "response.completed", "response": _response(GOOD)}
    request = replace(make_request(), seed=1, ignored=("logprobs",))
    reply, _ = generate(engine_factory(api="responses"), [sse(last, is_named=True)], request)
    assert reply.calls[0].receipt is not None
    assert "ignored: logprobs, seed" in reply.calls[0].receipt.notes
