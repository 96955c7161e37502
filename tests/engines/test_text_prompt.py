"""How a prompt is made: by the model's template where it keeps a conversation whole, else by the format."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE, WEATHER
from ferrule import ChatMessage, DefinitionError, ToolCall, get_format
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.prompt import FallbackMode, Prompting, prompting_for
from ferrule.errors import EngineError, EngineUnavailableError

DAY = date(2026, 1, 2)
# Written for Hermes calls; tools are shown, calls and results kept.
GOOD = (
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>\n'
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The same, which forgets the calls of earlier turns.
FORGETFUL = GOOD.replace("m.tool_calls or []", "[]")
CALL = ToolCall.of("get_weather", {"city": "Paris"}, id="c1")
HISTORY = (
    ChatMessage.user("How is Paris?"),
    ChatMessage.assistant(tool_calls=[CALL]),
    ChatMessage.tool("c1", "sunny", "get_weather"),
)


async def here(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
    return None


def made(template: str, fallback: FallbackMode = FallbackMode.AUTO) -> Prompting:
    facts = ModelFacts(template=template)
    return asyncio.run(prompting_for(facts, get_format("hermes"), DAY, fallback))


def written(prompting: Prompting, messages: tuple[ChatMessage, ...]) -> tuple[str, tuple[str, ...]]:
    return asyncio.run(prompting.prompt(messages, (WEATHER,), here, DAY))


def test_a_good_template_is_used_as_it_is_and_nothing_is_noted() -> None:
    prompt, notes = written(made(GOOD), HISTORY)
    assert prompt.startswith("<tools>")
    assert '"arguments": {"city": "Paris"}' in prompt
    assert "<|im_start|>tool\nsunny" in prompt
    assert notes == ()


def test_a_template_that_forgets_calls_is_used_until_there_are_calls_to_forget() -> None:
    prompting = made(FORGETFUL)
    first, nothing = written(prompting, HISTORY[:1])
    later, noted = written(prompting, HISTORY)
    assert first.startswith("<tools>")
    assert nothing == ()
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>' in later
    assert "<tool_response>\nsunny" in later
    assert "not by the template" in noted[0]


def test_a_template_without_tools_gets_them_explained() -> None:
    prompt, notes = written(made(PLAIN_TEMPLATE), HISTORY)
    assert "These tools can be called" in prompt
    assert "<|im_start|>user\n<tool_response>\nsunny" in prompt
    assert notes == ("tools are explained in the prompt",)


def test_never_refuses_what_the_template_cannot_carry() -> None:
    with pytest.raises(DefinitionError, match="hermes"):
        written(made(PLAIN_TEMPLATE, FallbackMode.NEVER), HISTORY)


def test_always_explains_even_where_the_template_could() -> None:
    prompt, _ = written(made(GOOD, FallbackMode.ALWAYS), HISTORY)
    assert "<tools>" in prompt
    assert "These tools can be called" in prompt


def test_a_model_without_a_template_gets_chatml_and_the_receipt_will_say_so() -> None:
    prompt, notes = written(made(""), HISTORY)
    assert prompt.endswith("<|im_start|>assistant\n")
    assert "ChatML" in notes[0]


def test_a_template_behind_an_engine_is_found_by_what_it_writes() -> None:
    from ferrule.wire.template.chat_template import ChatTemplate

    template = ChatTemplate(GOOD)

    async def remote(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return template.render(messages, tools)

    facts = ModelFacts(shows_its_template=True)
    prompting = asyncio.run(prompting_for(facts, None, DAY, FallbackMode.AUTO, remote))
    assert prompting.format.name == "hermes"
    assert prompting.faults == ()


def test_a_template_behind_an_engine_that_refuses_is_a_fault_and_an_engine_that_fails_is_an_error() -> None:
    async def refusing(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        raise EngineError("no tools here", code="engine_refused")

    async def failing(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        raise EngineUnavailableError("down")

    facts = ModelFacts(shows_its_template=True)
    prompting = asyncio.run(prompting_for(facts, get_format("hermes"), DAY, FallbackMode.AUTO, refusing))
    assert [fault.kind.value for fault in prompting.faults] == ["refuses"]
    with pytest.raises(EngineUnavailableError):
        asyncio.run(prompting_for(facts, None, DAY, FallbackMode.AUTO, failing))
