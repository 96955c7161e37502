"""PromptBuilder: turns a conversation and its tools into the prompt that a model continues.

The model's own chat template is used if it shows tools and keeps earlier calls. If it does not, the format explains the
tools in the system message and results are sent as user messages, so that tool calling works with any model.
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
from ferrule.wire.template.probe import FaultKind, TemplateFault, probe, probe_steps, sample, shows_tools

TemplateInput = tuple[list[dict[str, Any]], list[dict[str, Any]] | None]
ApplyTemplate = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], Awaitable[str | None]]

# For a model without a template: the layout that most open models were tuned on.
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class FallbackMode(StrEnum):
    """AUTO: explain the tools in the prompt if the template cannot show them. ALWAYS: even if it can. NEVER: refuse."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Builds prompts for one model. `faults` are the defects that the probe found in its template."""

    format: Format
    template: ChatTemplate
    source: str
    """The template's source, or a sample that the server rendered if the source is not available."""
    fallback: FallbackMode = FallbackMode.AUTO
    faults: tuple[TemplateFault, ...] = ()
    has_template: bool = True

    async def build(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolDefinition],
        apply_template: ApplyTemplate,
        today: date,
    ) -> tuple[str, tuple[str, ...]]:
        """Return the prompt and notes for the receipt. The backend renders the template if it can."""
        (template_messages, template_tools), notes = self._template_input(messages, tools)
        try:
            return await self._render(template_messages, template_tools, apply_template, today), notes
        except (TemplateError, EngineError) as refusal:
            is_about_template = isinstance(refusal, TemplateError) or refusal.code == "engine_refused"
            if not is_about_template or not tools or self.fallback is FallbackMode.NEVER:
                raise
            template_messages, template_tools = self._explain_tools(messages, tools)
            note = f"the template refused this conversation ({refusal.message}), so tools are explained in the prompt"
            return await self._render(template_messages, template_tools, apply_template, today), (*notes, note)

    async def _render(
        self,
        template_messages: list[dict[str, Any]],
        template_tools: list[dict[str, Any]] | None,
        apply_template: ApplyTemplate,
        today: date,
    ) -> str:
        rendered = await apply_template(template_messages, template_tools) if self.has_template else None
        if rendered is not None:
            return rendered
        # Rendering takes as long as the template and the conversation make it, so it must not block the event loop.
        return await asyncio.to_thread(self.template.render, template_messages, template_tools, now=today)

    def _template_input(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> tuple[TemplateInput, tuple[str, ...]]:
        notes = () if self.has_template else ("the model has no chat template, so ChatML is used",)
        faults = {fault.kind: fault.message for fault in self.faults}
        if self.fallback is FallbackMode.ALWAYS and tools:
            return self._explain_tools(messages, tools), notes
        if tools and FaultKind.NO_TOOLS in faults:
            self._refuse_if_never(faults[FaultKind.NO_TOOLS])
            return self._explain_tools(messages, tools), (*notes, "tools are explained in the prompt")
        template_tools = [tool.as_function() for tool in tools] or None
        damage = next((note for kind, note in faults.items() if kind is not FaultKind.DROPS_TEXT), "")
        if damage and any(message.tool_calls or message.results for message in messages):
            self._refuse_if_never(damage)
            note = f"earlier calls are rendered by the format, not by the template. {damage}"
            plain = as_plain_text(self.format, messages, tools)
            return (messages_of(plain, self.format), template_tools), (*notes, note)
        return (messages_of(messages, self.format), template_tools), notes

    def _explain_tools(self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]) -> TemplateInput:
        return messages_of(format_with_tools(self.format, messages, tools), self.format), None

    def _refuse_if_never(self, problem: str) -> None:
        if self.fallback is FallbackMode.NEVER:
            raise DefinitionError(
                f"the model's template cannot represent this conversation in {self.format.name}. {problem}",
                code="unfit_template",
                hint="Allow the fallback (fallback_mode=auto), or start the engine with another template.",
            )


async def prompt_builder_for(
    facts: ModelFacts,
    format: Format | None,
    today: date,
    fallback: FallbackMode = FallbackMode.AUTO,
    apply_template: ApplyTemplate | None = None,
) -> PromptBuilder:
    """Make the prompt builder for a model. Its format is detected from its template unless one is given.

    `apply_template` is used if the backend has a template but does not publish it.
    """
    if facts.renders_on_server and apply_template is not None:
        return await _remote_prompt_builder(facts, format, fallback, apply_template)
    source = facts.template or CHATML
    template = ChatTemplate(source, facts.bos, facts.eos)
    model_format = format or detect(source).format
    faults = await asyncio.to_thread(probe, template, model_format, now=today)
    return PromptBuilder(model_format, template, source, fallback, faults, bool(facts.template))


async def _remote_prompt_builder(
    facts: ModelFacts, format: Format | None, fallback: FallbackMode, apply_template: ApplyTemplate
) -> PromptBuilder:
    rendered = await _try_template(apply_template, *sample(format or get_format(FALLBACK)))
    text = "" if isinstance(rendered, TemplateError) else rendered
    model_format = format or detect_rendered(text, shows_tools=shows_tools(text)).format
    probe_inputs = probe_steps(model_format)
    template_input = next(probe_inputs)
    while True:
        try:
            template_input = probe_inputs.send(await _try_template(apply_template, *template_input))
        except StopIteration as done:
            faults: tuple[TemplateFault, ...] = done.value
            return PromptBuilder(model_format, ChatTemplate(CHATML), text, fallback, faults)


async def _try_template(
    apply_template: ApplyTemplate, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> str | TemplateError:
    try:
        return await apply_template(messages, tools) or ""
    except EngineError as refusal:
        if refusal.code != "engine_refused":
            raise
        return TemplateError(refusal.message)
