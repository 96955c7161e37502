"""PromptBuilder: turns a conversation and its tools into the prompt that a model continues.

The model's own chat template is used if it shows tools and keeps earlier calls. If it does not, the format explains the
tools in the system message and results are sent as user messages, so that tool calling works with any model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any

from ferrule.core.message import ChatMessage
from ferrule.core.tool import ToolDefinition
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.special_texts import SpecialTexts
from ferrule.errors import DefinitionError, EngineError, TemplateError
from ferrule.wire.detection import FALLBACK, detect, detect_rendered
from ferrule.wire.format import Format
from ferrule.wire.history import own_ids
from ferrule.wire.node import Think
from ferrule.wire.outside_text import Prompt, mark, outside_texts
from ferrule.wire.prompt import explained_conversation, plain_conversation
from ferrule.wire.registry import get_format
from ferrule.wire.template.chat_template import ChatTemplate, messages_of
from ferrule.wire.template.probe import FaultKind, TemplateFault, probe, probe_steps, sample, shows_tools
from ferrule.wire.template.tool_object import template_tool

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
    special_texts: SpecialTexts = field(default_factory=lambda: SpecialTexts(None))

    async def build(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolDefinition],
        apply_template: ApplyTemplate,
        today: date,
    ) -> tuple[Prompt, tuple[str, ...]]:
        """Return the prompt and notes for the receipt. The backend renders the template if it can."""
        special = await self.special_texts.among(outside_texts(messages, tools))
        if not special:
            rendered, notes = await self._build_text(messages, tools, apply_template, today)
            return Prompt((rendered,)), notes
        # Long texts with many special tokens must not block the event loop.
        marked = await asyncio.to_thread(mark, messages, tools, special, self._reasoning_tags)
        rendered, notes = await self._build_text(marked.messages, marked.tools, apply_template, today)
        return await asyncio.to_thread(marked.prompt, rendered), notes

    @property
    def _reasoning_tags(self) -> tuple[str, str] | None:
        think = next((item for item in self.format.reply.items if isinstance(item, Think)), None)
        tags = (think.open.canonical.strip(), think.close.canonical.strip()) if think else None
        return tags if tags and tags[1] in self.source else None

    async def _build_text(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolDefinition],
        apply_template: ApplyTemplate,
        today: date,
    ) -> tuple[str, tuple[str, ...]]:
        # A long history takes long to write in the format and to read back, which must not block the event loop.
        template_input, notes = await asyncio.to_thread(self._template_input, messages, tools)
        try:
            return await self._render(template_input, apply_template, today), notes
        except (TemplateError, EngineError) as refusal:
            if not self._may_fall_back(refusal):
                raise
            reason = refusal
        if tools:
            template_input, written_notes = await asyncio.to_thread(self._explain_tools, messages, tools)
            note = f"{_refusal_note(reason)}, so tools are explained in the prompt"
            notes = tuple(dict.fromkeys((*notes, note, *written_notes)))
            try:
                return await self._render(template_input, apply_template, today), notes
            except (TemplateError, EngineError) as refusal:
                if not self._may_fall_back(refusal):
                    raise
                reason = refusal
        merged = _merge_system_message(template_input)
        if merged is None:
            raise reason
        note = f"{_refusal_note(reason)}, so the user's message has the system's text"
        return await self._render(merged, apply_template, today), (*notes, note)

    def _may_fall_back(self, refusal: TemplateError | EngineError) -> bool:
        is_about_template = isinstance(refusal, TemplateError) or refusal.is_refusal
        return is_about_template and self.fallback is not FallbackMode.NEVER

    async def _render(self, template_input: TemplateInput, apply_template: ApplyTemplate, today: date) -> str:
        rendered = await apply_template(*template_input) if self.has_template else None
        if rendered is not None:
            return rendered
        # Rendering takes as long as the template and the conversation make it, so it must not block the event loop.
        return await asyncio.to_thread(self.template.render, *template_input, now=today)

    def _template_input(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> tuple[TemplateInput, tuple[str, ...]]:
        notes = () if self.has_template else ("the model has no chat template, so ChatML is used",)
        faults = {fault.kind: fault.message for fault in self.faults}
        if not any(len(message.tool_calls) > 1 for message in messages):
            faults.pop(FaultKind.FIRST_CALL_ONLY, None)
        if self.fallback is FallbackMode.ALWAYS and tools:
            explained, written_notes = self._explain_tools(messages, tools)
            return explained, (*notes, *written_notes)
        if tools and FaultKind.NO_TOOLS in faults:
            self._refuse_if_never(faults[FaultKind.NO_TOOLS])
            explained, written_notes = self._explain_tools(messages, tools)
            return explained, (*notes, "tools are explained in the prompt", *written_notes)
        template_tools = list(map(template_tool, tools)) or None
        damage = next((note for kind, note in faults.items() if kind is not FaultKind.DROPS_TEXT), "")
        if damage and any(message.tool_calls or message.results for message in messages):
            self._refuse_if_never(damage)
            note = f"earlier calls are rendered by the format, not by the template. {damage}"
            plain = plain_conversation(self.format, messages, tools)
            return (messages_of(plain.messages, self.format), template_tools), (*notes, note, *plain.notes)
        # Some templates refuse the ids of another family, and some models get confused by them.
        translated, id_notes = own_ids(self.format, messages)
        return (messages_of(translated, self.format), template_tools), (*notes, *id_notes)

    def _explain_tools(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> tuple[TemplateInput, tuple[str, ...]]:
        explained = explained_conversation(self.format, messages, tools)
        return (messages_of(explained.messages, self.format), None), explained.notes

    def _refuse_if_never(self, problem: str) -> None:
        if self.fallback is FallbackMode.NEVER:
            raise DefinitionError(
                f"the model's template cannot represent this conversation in {self.format.name}. {problem}",
                code="unfit_template",
                hint="Allow the fallback (fallback_mode=auto), or start the engine with another template.",
            )


def _merge_system_message(template_input: TemplateInput) -> TemplateInput | None:
    """Return the conversation with the system's text before the first user message's; None if there is no such pair.

    Some templates have no system message (Gemma 2).
    """
    messages, tools = template_input
    match messages[:2]:
        case [{"role": "system", "content": str(system)}, {"role": "user", "content": str(text)} as user]:
            return [{**user, "content": f"{system}\n\n{text}"}, *messages[2:]], tools
        case _:
            return None


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
    special_texts = SpecialTexts(facts.find_special_texts)
    return PromptBuilder(model_format, template, source, fallback, faults, bool(facts.template), special_texts)


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
            special_texts = SpecialTexts(facts.find_special_texts)
            return PromptBuilder(
                model_format, ChatTemplate(CHATML), text, fallback, faults, special_texts=special_texts
            )


def _refusal_note(refusal: TemplateError | EngineError) -> str:
    return f"the template refused this conversation ({_refusal_reason(refusal)})"


def _refusal_reason(refusal: TemplateError | EngineError) -> str:
    """Why a template refused, for a receipt, which callers read: an engine's own words may hold its address."""
    if isinstance(refusal, TemplateError):
        return refusal.message
    return f"the engine answered {refusal.upstream_status}" if refusal.upstream_status else "the engine refused it"


async def _try_template(
    apply_template: ApplyTemplate, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> str | TemplateError:
    try:
        return await apply_template(messages, tools) or ""
    except EngineError as refusal:
        if not refusal.is_refusal:
            raise
        return TemplateError(_refusal_reason(refusal))
