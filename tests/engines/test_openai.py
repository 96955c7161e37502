"""OpenAI's two APIs, and servers that speak them without being OpenAI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines.providers import QUICK, call, chunk, generated, sse, whole
from engines.tools import TAGS, WEATHER, asked
from ferrule import DefinitionError, FinishReason, ToolChoice, Usage
from ferrule.core.receipt import How
from ferrule.engines.chat.engine import ChatEngine
from ferrule.engines.openai import openai
from ferrule.engines.profile import Finding, Profile, Verdict
from ferrule.engines.profile_file import save_profile
from ferrule.errors import UnsupportedError

GOOD = '{"city": "Paris"}'
CHAT = sse(chunk(call(GOOD)), chunk({}, "tool_calls"), done=True)


def on(**settings: Any) -> Callable[[str], ChatEngine]:
    return lambda url: openai("m", url=f"{url}/v1", deadlines=QUICK, **settings)


def test_the_request_is_the_chat_apis_with_the_key_and_the_model() -> None:
    reply, requests = generated(on(key="secret"), [CHAT], replace(asked(), model="another"))
    sent = requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["Authorization"] == "Bearer secret"
    assert (sent.body["model"], sent.body["stream"], sent.body["max_tokens"]) == ("m", True, 512)
    assert sent.body["tools"][0]["function"]["name"] == "get_weather"
    assert reply.calls[0].arguments == {"city": "Paris"}


def test_another_server_is_not_sent_the_key_for_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    _, requests = generated(on(), [CHAT], asked())
    assert "Authorization" not in requests[0].headers


def test_openai_itself_needs_a_key_and_takes_it_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UnsupportedError, match="key"):
        openai("m")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert openai("m").api.headers == {"Authorization": "Bearer secret"}


def test_openai_itself_is_told_every_choice_and_the_newer_name_of_the_token_limit() -> None:
    api = openai("m", key="k").api
    assert {"one", "allowed"} <= api.honours
    body = api.request_body(asked(choice=ToolChoice.one("get_weather")), stream=True)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert body["max_completion_tokens"] == 512
    assert "top_k" in api.lacks


def test_a_named_tool_is_demanded_of_other_servers_by_offering_no_other() -> None:
    request = asked(tools=(WEATHER, TAGS), choice=ToolChoice.one("get_weather"))
    reply, requests = generated(on(), [CHAT], request)
    body = requests[0].body
    assert (body["tool_choice"], [tool["function"]["name"] for tool in body["tools"]]) == ("required", ["get_weather"])
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.notes == ("the one tool was demanded by offering no other",)


def test_a_server_that_keeps_a_named_tool_is_told_its_name() -> None:
    request = asked(tools=(WEATHER, TAGS), choice=ToolChoice.one("get_weather"))
    _, requests = generated(on(honours=("auto", "none", "required", "one")), [CHAT], request)
    assert requests[0].body["tool_choice"]["function"]["name"] == "get_weather"
    assert len(requests[0].body["tools"]) == 2


def _item(kind: str, arguments: str) -> dict[str, Any]:
    item = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": arguments}
    return {"type": f"response.output_item.{kind}", "output_index": 0, "item": item}


def _response(arguments: str) -> dict[str, Any]:
    usage = {"input_tokens": 4, "output_tokens": 2}
    return {"object": "response", "status": "completed", "output": [_item("done", arguments)["item"]], "usage": usage}


def test_the_responses_api_is_spoken_too_and_its_calls_are_repaired_alike() -> None:
    pieces = [{"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"city": 5}'}]
    last = {"type": "response.completed", "response": _response('{"city": 5}')}
    answer = sse(_item("added", ""), *pieces, _item("done", '{"city": 5}'), last, is_named=True)
    reply, requests = generated(on(api="responses"), [answer, whole(_response(GOOD))], asked())
    assert [sent.path for sent in requests] == ["/v1/responses"] * 2
    assert (requests[0].body["store"], requests[0].body["max_output_tokens"]) == (False, 512)
    assert requests[1].body["input"][-2:][1]["output"].startswith("Error: invalid_arguments: /city")
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.REPAIRED, "responses")
    assert (reply.calls[0].id, reply.calls[0].function.arguments) == ("c1", GOOD)
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(8, 4))


def test_what_the_responses_api_has_no_place_for_is_told() -> None:
    last = {"type": "response.completed", "response": _response(GOOD)}
    reply, _ = generated(on(api="responses"), [sse(last, is_named=True)], replace(asked(), seed=1, stop=("x",)))
    assert [found.code for found in reply.diagnostics] == ["not_sent"]
    assert "seed, stop" in reply.diagnostics[0].message


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(DefinitionError, match="assistants"):
        openai("m", key="k", api="assistants")


@pytest.mark.parametrize("verdict, kept", [(Verdict.HONOURED, True), (Verdict.IGNORED, False), (Verdict.PARTLY, False)])
def test_what_the_doctor_found_counts_and_not_what_is_believed(
    verdict: Verdict, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    findings = tuple(Finding(name, verdict, "seen") for name in ("required", "named"))
    save_profile(Profile("http://127.0.0.1:1/v1", "m", "2026-01-31", findings))
    api = openai("m", url="http://127.0.0.1:1").api
    assert (("required" in api.honours), ("one" in api.honours)) == (kept, kept)
    assert "none" in api.honours
    assert openai("another", url="http://127.0.0.1:1").api.honours == {"auto", "none", "required"}
    assert openai("m", url="http://127.0.0.1:1", api="responses").api.honours == {"auto", "none", "required"}


def test_a_server_that_was_seen_to_ignore_required_is_not_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    url = "http://127.0.0.1:1"
    save_profile(Profile(url, "m", "2026-01-31", (Finding("required", Verdict.IGNORED, "prose"),)))
    with pytest.raises(UnsupportedError, match="required"):
        openai("m", url=url).generate(asked(choice=ToolChoice.required()))
