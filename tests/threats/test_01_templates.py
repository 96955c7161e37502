"""Row 1: a chat template is an untrusted program, and no request may supply one."""

import asyncio
from typing import Any

import pytest

from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from server.client import scripted_engine
from server.keys import bearer
from threats.audit import OPENS, SPAWNS, audit
from threats.gateway_fixture import ANN, CHAT, USER, chat, threat_gateway
from wire.test_template_hostile import ESCAPES, GREEDY

TEMPLATE_FIELDS = {
    "chat_template": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "chat_template_kwargs": {"tokenize": True, "chat_template": "{{ 1 }}", "add_generation_prompt": False},
    "template": "{{ 7 * 7 }}",
    "documents": [{"text": "{{ 7 * 7 }}"}],
}


# tests/wire covers all expensive templates; here one of each kind is enough.
GREEDIEST = tuple(GREEDY[kind] for kind in ("a macro without end", "a long range", "a multiplied text"))


@pytest.mark.parametrize("template", [*ESCAPES, *GREEDIEST])
def test_a_hostile_template_in_a_model_starts_nothing_and_ends_with_an_error_or_harmless_text(template: str) -> None:
    async def scenario() -> tuple[int, bytes]:
        generator = FakeGenerator(["Hello."], ModelFacts(template=template))
        engine = TextEngine(generator, TextOptions(format="hermes"))
        async with threat_gateway(engine=engine) as client:
            answer = await chat(client, ANN)
            return answer.status, answer.body

    with audit(SPAWNS) as processes:
        status, body = asyncio.run(scenario())
    assert status in (200, 400, 500, 501, 502)
    assert b"uid=" not in body
    assert b"<class" not in body
    assert processes == []


@pytest.mark.parametrize("name", TEMPLATE_FIELDS)
def test_a_template_in_a_request_is_ignored(name: str) -> None:
    def requests_with(more: dict[str, Any]) -> list[Any]:
        async def scenario() -> list[Any]:
            engine = scripted_engine("Hello.")
            async with threat_gateway(engine=engine) as client:
                await client.post(CHAT, {"model": "e0", "messages": USER, **more}, bearer(ANN))
            return list(engine.requests)

        return asyncio.run(scenario())

    with audit(SPAWNS | OPENS) as events:
        requests = requests_with({name: TEMPLATE_FIELDS[name]})
    assert requests == requests_with({})
    assert not [one for one in events if one.startswith(tuple(SPAWNS))]


@pytest.mark.parametrize("field", ["content", "name"])
def test_a_template_in_a_message_is_text(field: str) -> None:
    async def scenario() -> str:
        generator = FakeGenerator(["Hello."])
        async with threat_gateway(engine=TextEngine(generator, TextOptions(format="hermes"))) as client:
            messages = [{"role": "user", "content": "Hi.", field: "{{ 7 * 7 }}{% for a in b %}"}]
            answer = await chat(client, ANN, messages=messages)
            assert answer.status == 200
            return generator.requests[0].prompt

    prompt = asyncio.run(scenario())
    assert "49" not in prompt
    assert field == "name" or "{{ 7 * 7 }}{% for a in b %}" in prompt
