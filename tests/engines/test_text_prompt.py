"""The model's template builds the prompt if it keeps the conversation intact, else the format does."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from engines.tools import PLAIN_TEMPLATE, WEATHER
from ferrule import ChatMessage, DefinitionError, ToolCall
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.prompt import FallbackMode, PromptBuilder, prompt_builder_for
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.formats import get_format

DAY = date(2026, 1, 2)
# Written for Hermes calls; tools are shown, calls and results kept.
GOOD = (
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>\n'
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The same template, but it omits the calls of earlier turns.
FORGETFUL = GOOD.replace("m.tool_calls or []", "[]")
CALL = ToolCall.of("get_weather", {"city": "Paris"}, id="c1")
HISTORY = (
    ChatMessage.user("How is Paris?"),
    ChatMessage.assistant(tool_calls=[CALL]),
    ChatMessage.tool("c1", "sunny", "get_weather"),
)


async def no_server_template(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
    return None


def builder_for(template: str, fallback: FallbackMode = FallbackMode.AUTO) -> PromptBuilder:
    facts = ModelFacts(template=template)
    return asyncio.run(prompt_builder_for(facts, get_format("hermes"), DAY, fallback))


def build_prompt(builder: PromptBuilder, messages: tuple[ChatMessage, ...]) -> tuple[str, tuple[str, ...]]:
    prompt, notes = asyncio.run(builder.build(messages, (WEATHER,), no_server_template, DAY))
    return prompt.text, notes


def test_a_good_template_is_used_as_it_is_and_nothing_is_noted() -> None:
    prompt, notes = build_prompt(builder_for(GOOD), HISTORY)
    assert prompt.startswith("<tools>")
    assert '"arguments": {"city": "Paris"}' in prompt
    assert "<|im_start|>tool\nsunny" in prompt
    assert notes == ()


def test_a_template_that_omits_calls_is_used_until_there_are_calls() -> None:
    builder = builder_for(FORGETFUL)
    first, nothing = build_prompt(builder, HISTORY[:1])
    later, notes = build_prompt(builder, HISTORY)
    assert first.startswith("<tools>")
    assert nothing == ()
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>' in later
    assert "<tool_response>\nsunny" in later
    assert "not by the template" in notes[0]


def test_a_template_without_tools_gets_them_explained() -> None:
    prompt, notes = build_prompt(builder_for(PLAIN_TEMPLATE), HISTORY)
    assert "These tools can be called" in prompt
    assert "<|im_start|>user\n<tool_response>\nsunny" in prompt
    assert notes == ("tools are explained in the prompt",)


def test_fallback_never_refuses_what_the_template_cannot_represent() -> None:
    with pytest.raises(DefinitionError, match="hermes"):
        build_prompt(builder_for(PLAIN_TEMPLATE, FallbackMode.NEVER), HISTORY)


def test_always_explains_even_where_the_template_could() -> None:
    prompt, _ = build_prompt(builder_for(GOOD, FallbackMode.ALWAYS), HISTORY)
    assert "<tools>" in prompt
    assert "These tools can be called" in prompt


def test_a_model_without_a_template_gets_chatml_and_the_receipt_will_say_so() -> None:
    prompt, notes = build_prompt(builder_for(""), HISTORY)
    assert prompt.endswith("<|im_start|>assistant\n")
    assert "ChatML" in notes[0]


def test_a_template_on_the_server_is_detected_by_what_it_renders() -> None:
    from ferrule.wire.template.chat_template import ChatTemplate

    template = ChatTemplate(GOOD)

    async def remote(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return template.render(messages, tools)

    facts = ModelFacts(renders_on_server=True)
    builder = asyncio.run(prompt_builder_for(facts, None, DAY, FallbackMode.AUTO, remote))
    assert builder.format.name == "hermes"
    assert builder.faults == ()


def test_a_server_template_that_refuses_is_a_fault_and_a_server_that_fails_is_an_error() -> None:
    async def refuse(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        raise EngineError("no tools here", code="engine_refused")

    async def fail(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        raise EngineUnavailableError("down")

    facts = ModelFacts(renders_on_server=True)
    builder = asyncio.run(prompt_builder_for(facts, get_format("hermes"), DAY, FallbackMode.AUTO, refuse))
    assert [fault.kind.value for fault in builder.faults] == ["refuses"]
    with pytest.raises(EngineUnavailableError):
        asyncio.run(prompt_builder_for(facts, None, DAY, FallbackMode.AUTO, fail))


def test_a_template_without_a_system_message_gets_its_text_in_the_first_user_message() -> None:
    template = (
        "{% for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "<{{ message.role }}>{{ message.content }}</{{ message.role }}>{% endfor %}"
    )
    prompt, notes = build_prompt(builder_for(template), (ChatMessage.system("Be brief."), ChatMessage.user("How?")))
    assert prompt.startswith("<user>Be brief.\n\nThese tools can be called:")
    assert prompt.endswith("\n\nHow?</user>")
    assert "no system" in notes[-1]
