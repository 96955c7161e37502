"""What there is to say about a model: its format and how that was found, its template's faults, an example, a rule."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from ferrule.cli.format_facts import facts_of
from ferrule.cli.grammars import TARGETS
from ferrule.core.call import ToolCall
from ferrule.core.choice import ToolChoice
from ferrule.core.json_schema import JsonSchema
from ferrule.core.message import ChatMessage
from ferrule.core.tool import ToolDefinition
from ferrule.engines.checkpoint.checkpoint import Checkpoint
from ferrule.errors import FerruleError
from ferrule.wire.detection import How, detect
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
    """`how` is "marks", "no_tools" or "by_hand"; `found` tells it in a sentence. `rule` is "" where none was wanted."""

    name: str
    architecture: str
    family: str
    format: str
    about: str
    how: str
    found: str
    faults: tuple[TemplateFault, ...]
    example: str
    rule: str = ""

    def as_dict(self) -> dict[str, object]:
        shown: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        shown["faults"] = [{"kind": fault.kind.value, "told": fault.told} for fault in self.faults]
        if not self.rule:
            del shown["rule"]
        return shown


def inspection_of(checkpoint: Checkpoint, by_hand: Format | None = None, target: str = "") -> Inspection:
    """All of it. With `by_hand` the format is that one; with `target` the rule for two tools is emitted for it."""
    form, how, found = (by_hand, "by_hand", "it was named by hand") if by_hand else _detected(checkpoint)
    template = ChatTemplate(checkpoint.template, checkpoint.bos, checkpoint.eos)
    facts = facts_of(form)
    return Inspection(
        name=checkpoint.name,
        architecture=checkpoint.architecture,
        family=facts.family or "",
        format=form.name,
        about=facts.about,
        how=how,
        found=found,
        faults=probe(template, form),
        example=_example(template, form, knows_tools=how != How.NO_TOOLS),
        rule=_rule(form, target) if target else "",
    )


def _detected(checkpoint: Checkpoint) -> tuple[Format, str, str]:
    found = detect(checkpoint.template)
    return found.format, found.how.value, found.told


def _example(template: ChatTemplate, format: Format, *, knows_tools: bool) -> str:
    """A question, a call and its result, as the model would read them before it answers."""
    call = ToolCall.of("get_weather", {"city": "Paris", "days": 2}, id=format.ids.sample("get_weather", 0))
    asked = ChatMessage.user("What will the weather be like in Paris?")
    told = ChatMessage.tool(call.id, {"celsius": 21}, call.name)
    messages = (asked, ChatMessage.assistant(tool_calls=[call]), told)
    tools = [tool.as_function() for tool in TOOLS] if knows_tools else None
    try:
        shown = messages if knows_tools else _without_system(format_with_tools(format, messages, TOOLS))
        return template.render(messages_of(shown, format), tools, now=SAMPLE_DAY)
    except FerruleError as refusal:
        return f"(none: {refusal.message})"


def _without_system(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """Many templates without tools have no system message either, so it goes into the first question."""
    system, first, *others = messages
    return (ChatMessage.user(f"{system.content}\n\n{first.content}"), *others)


def _rule(format: Format, target: str) -> str:
    options = {"choice": ToolChoice.required(), "parallel": True, "reasoning": ReasoningMode.ON.value}
    return TARGETS[target](Namespace(format=format, tools=TOOLS, response_schema=None, **options))
