"""Inspection: a model's format and how it was detected, its template's faults, an example and a rule."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from ferrule.cli.format_facts import facts_of
from ferrule.cli.grammars import TARGETS
from ferrule.core.call import ToolCall
from ferrule.core.json_schema import JsonSchema
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.checkpoint.checkpoint import Checkpoint
from ferrule.errors import FerruleError
from ferrule.wire.detection import DetectionMethod, detect
from ferrule.wire.format import Format
from ferrule.wire.prompt import format_with_tools
from ferrule.wire.rule_builder import ReasoningMode
from ferrule.wire.template.chat_template import ChatTemplate, messages_of
from ferrule.wire.template.probe import SAMPLE_DAY, TemplateFault, probe

TOOLS = (
    ToolDefinition.build("get_weather")
    .description("The weather of the coming days.")
    .parameter("city", JsonSchema.string("where"), required=True)
    .parameter("days", JsonSchema.integer("how many"))
    .done(),
    ToolDefinition.build("get_time")
    .description("The time in a city.")
    .parameter("city", JsonSchema.string("where"), required=True)
    .done(),
)


@dataclass(frozen=True, slots=True)
class Inspection:
    """`how` is "markers", "no_tools" or "by_hand"; `evidence` explains it. `rule` is empty if not requested."""

    name: str
    architecture: str
    family: str
    format: str
    about: str
    how: str
    evidence: str
    faults: tuple[TemplateFault, ...]
    example: str
    rule: str = ""

    def as_dict(self) -> dict[str, object]:
        fields: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        fields["faults"] = [{"kind": fault.kind.value, "message": fault.message} for fault in self.faults]
        if not self.rule:
            del fields["rule"]
        return fields


def inspection_of(checkpoint: Checkpoint, by_hand: Format | None = None, target: str = "") -> Inspection:
    """Inspect a checkpoint. `by_hand` sets the format; with `target` a rule for two tools is emitted."""
    form, how, evidence = (by_hand, "by_hand", "given with --format") if by_hand else _detect(checkpoint)
    template = ChatTemplate(checkpoint.template, checkpoint.bos, checkpoint.eos)
    facts = facts_of(form)
    return Inspection(
        name=checkpoint.name,
        architecture=checkpoint.architecture,
        family=facts.family or "",
        format=form.name,
        about=facts.about,
        how=how,
        evidence=evidence,
        faults=probe(template, form),
        example=_example(template, form, knows_tools=how != DetectionMethod.NO_TOOLS),
        rule=_rule(form, target) if target else "",
    )


def _detect(checkpoint: Checkpoint) -> tuple[Format, str, str]:
    detection = detect(checkpoint.template)
    return detection.format, detection.method.value, detection.evidence


def _example(template: ChatTemplate, format: Format, *, knows_tools: bool) -> str:
    """A question, a call and its result, as the model's prompt contains them."""
    call = ToolCall.of("get_weather", {"city": "Paris", "days": 2}, id=format.ids.sample("get_weather", 0))
    question = ChatMessage.user("What will the weather be like in Paris?")
    result = ChatMessage.tool(call.id, {"celsius": 21}, call.name)
    messages = (question, ChatMessage.assistant(tool_calls=[call]), result)
    tools = [tool.as_function() for tool in TOOLS] if knows_tools else None
    try:
        rendered = messages if knows_tools else _without_system(format_with_tools(format, messages, TOOLS))
        return template.render(messages_of(rendered, format), tools, now=SAMPLE_DAY)
    except FerruleError as refusal:
        return f"(none: {refusal.message})"


def _without_system(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """Many templates without tools do not support a system message either, so put it into the first question."""
    system, first, *others = messages
    return (ChatMessage.user(f"{system.content}\n\n{first.content}"), *others)


def _rule(format: Format, target: str) -> str:
    options = {"choice": ToolChoice.required(), "parallel": True, "reasoning": ReasoningMode.ON.value}
    return TARGETS[target](Namespace(format=format, tools=TOOLS, response_schema=None, **options))
