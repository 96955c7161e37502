"""Prompting: a conversation and its tools as the text that a model continues.

The model's own template is used where it shows tools and keeps history whole; where it does not, the format explains
the tools in the system message and results come back as a user's message, so that the loop works on any model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from ferrule.core.message import ChatMessage
from ferrule.core.tool import ToolDefinition
from ferrule.engines.generator import ModelFacts
from ferrule.errors import DefinitionError, EngineError, TemplateError
from ferrule.wire.detection import FALLBACK, detect, detect_rendered
from ferrule.wire.format import Format
from ferrule.wire.prompt import as_plain_text, format_with_tools
from ferrule.wire.registry import get_format
from ferrule.wire.template.chat_template import ChatTemplate, messages_of
from ferrule.wire.template.probe import FaultKind, TemplateFault, probe, probing, sample, shows_tools

Spelled = tuple[list[dict[str, Any]], list[dict[str, Any]] | None]
Templated = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], Awaitable[str | None]]

# For a model that comes without any template: the shape that most open models were tuned on.
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class FallbackMode(StrEnum):
    """AUTO: explain the tools in the prompt where the template cannot. ALWAYS: also where it can. NEVER: refuse."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Prompting:
    """How prompts are made for one model. `faults` are what the probe found its template to damage."""

    format: Format
    template: ChatTemplate
    source: str
    """The template's own text, or what it wrote of a sample where nobody gives it out."""
    fallback: FallbackMode = FallbackMode.AUTO
    faults: tuple[TemplateFault, ...] = ()
    has_template: bool = True

    async def prompt(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition], templated: Templated, today: date
    ) -> tuple[str, tuple[str, ...]]:
        """The prompt, by the backend's own template where it can be asked, and what a person should know about it."""
        (spelled, shown), notes = self._spelled(messages, tools)
        try:
            return await self._written(spelled, shown, templated, today), notes
        except (TemplateError, EngineError) as refusal:
            is_about_template = isinstance(refusal, TemplateError) or refusal.code == "engine_refused"
            if not is_about_template or not tools or self.fallback is FallbackMode.NEVER:
                raise
            spelled, shown = self._explained(messages, tools)
            told = f"the template refused this conversation ({refusal.message}), so tools are explained in the prompt"
            return await self._written(spelled, shown, templated, today), (*notes, told)

    async def _written(
        self, spelled: list[dict[str, Any]], shown: list[dict[str, Any]] | None, templated: Templated, today: date
    ) -> str:
        asked = await templated(spelled, shown) if self.has_template else None
        if asked is not None:
            return asked
        # It takes as long as a stranger's template and a client's conversation make it: others are served meanwhile.
        return await asyncio.to_thread(self.template.render, spelled, shown, now=today)

    def _spelled(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> tuple[Spelled, tuple[str, ...]]:
        notes = () if self.has_template else ("the model has no chat template, so ChatML is used",)
        kinds = {fault.kind: fault.told for fault in self.faults}
        if self.fallback is FallbackMode.ALWAYS and tools:
            return self._explained(messages, tools), notes
        if tools and FaultKind.NO_TOOLS in kinds:
            self._refuse_if_never(kinds[FaultKind.NO_TOOLS])
            return self._explained(messages, tools), (*notes, "tools are explained in the prompt")
        shown = [tool.as_function() for tool in tools] or None
        damage = next((told for kind, told in kinds.items() if kind is not FaultKind.DROPS_TEXT), "")
        if damage and any(message.tool_calls or message.results for message in messages):
            self._refuse_if_never(damage)
            told = f"earlier calls are written by the format and not by the template. {damage}"
            plain = as_plain_text(self.format, messages, tools)
            return (messages_of(plain, self.format), shown), (*notes, told)
        return (messages_of(messages, self.format), shown), notes

    def _explained(self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]) -> Spelled:
        return messages_of(format_with_tools(self.format, messages, tools), self.format), None

    def _refuse_if_never(self, told: str) -> None:
        if self.fallback is FallbackMode.NEVER:
            raise DefinitionError(
                f"the model's template cannot carry this conversation in {self.format.name}. {told}",
                code="unfit_template",
                hint="Allow the fallback, which writes calls by the format, or give the engine another template.",
            )


async def prompting_for(
    facts: ModelFacts,
    format: Format | None,
    today: date,
    fallback: FallbackMode = FallbackMode.AUTO,
    templated: Templated | None = None,
) -> Prompting:
    """How to prompt a model: its format found from its template unless one is given.

    `templated` is asked where the engine has a template but does not give it out.
    """
    if facts.shows_its_template and templated is not None:
        return await _behind_an_engine(facts, format, fallback, templated)
    source = facts.template or CHATML
    template = ChatTemplate(source, facts.bos, facts.eos)
    found = format or detect(source).format
    faults = await asyncio.to_thread(probe, template, found, now=today)
    return Prompting(found, template, source, fallback, faults, bool(facts.template))


async def _behind_an_engine(
    facts: ModelFacts, format: Format | None, fallback: FallbackMode, templated: Templated
) -> Prompting:
    written = await _answered(templated, *sample(format or get_format(FALLBACK)))
    text = "" if isinstance(written, TemplateError) else written
    found = format or detect_rendered(text, shows_tools=shows_tools(text)).format
    questions = probing(found)
    asked = next(questions)
    while True:
        try:
            asked = questions.send(await _answered(templated, *asked))
        except StopIteration as done:
            faults: tuple[TemplateFault, ...] = done.value
            return Prompting(found, ChatTemplate(CHATML), text, fallback, faults)


async def _answered(
    templated: Templated, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> str | TemplateError:
    try:
        return await templated(messages, tools) or ""
    except EngineError as refusal:
        if refusal.code != "engine_refused":
            raise
        return TemplateError(refusal.message)
