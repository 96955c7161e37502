"""Probe: find out whether a chat template damages a conversation, by rendering one instead of reading its source.

The probe renders a sample conversation: a turn of text and two calls with difficult arguments, their results, an
answer, a second question. The text between the first question and the first result is the template's version of the
assistant's turn. The format's own parser parses it, and the result is compared with the input.

Faults are decided by meaning. A template that writes `True` for `true` has no fault if our parser reads the same value:
it reads the model's next call in the same way. It is a fault only if a different value comes back: `python_repr` if
Python's spelling is the cause, otherwise `changes_arguments`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Any, TypeAlias

from ferrule.core.call import ToolCall
from ferrule.core.json_schema import JsonSchema
from ferrule.core.json_text import canonical, dumps
from ferrule.core.message import ChatMessage
from ferrule.core.tool import ToolDefinition
from ferrule.errors import TemplateError
from ferrule.wire.format import Format
from ferrule.wire.parser import parse
from ferrule.wire.template.chat_template import ChatTemplate, messages_of

SAMPLE_DAY = date(2025, 1, 1)
"""The date that templates get, so that two probes give the same result."""

_QUESTION, _TEXT, _ANSWER, _AGAIN = "QUESTION-ONE", "TEXT-ONE", "ANSWER-ONE", "QUESTION-TWO"
_RESULTS = ("RESULT-ONE", "RESULT-TWO")
_ABOUT = "DESCRIPTION-ONE"
_HARD: Mapping[str, Any] = {
    "city": 'Zürich "alt" 東京',
    "days": 2,
    "exact": True,
    "limit": None,
    "ratio": -0.5,
    "more": {"deep": [1, True, None, "it's"], "note": "a & <b>"},
}
_EASY: Mapping[str, Any] = {"city": "Rome"}
TOOLS = (
    ToolDefinition.build("find_place")
    .description(_ABOUT)
    .parameter("city", JsonSchema.string("where"), required=True)
    .parameter("days", JsonSchema.integer("how many"))
    .parameter("exact", JsonSchema.boolean("or about"))
    # Without a type: several templates recurse forever on a list of types.
    .parameter("limit", {"description": "the most"})
    .parameter("ratio", JsonSchema.number("a share"))
    .parameter("more", {"type": "object", "description": "all else"})
    .done(),
    # Templates read `required` without checking whether it is present.
    ToolDefinition("ping", "Nothing.", {"type": "object", "properties": {}, "required": []}),
)


class FaultKind(StrEnum):
    """What a template does to a conversation, from most to least severe."""

    REFUSES = "refuses"
    NO_TOOLS = "no_tools"
    DROPS_CALLS = "drops_calls"
    FIRST_CALL_ONLY = "first_call_only"
    PYTHON_REPR = "python_repr"
    CHANGES_ARGUMENTS = "changes_arguments"
    DROPS_RESULTS = "drops_results"
    DROPS_TEXT = "drops_text"


@dataclass(frozen=True, slots=True)
class TemplateFault:
    """One thing that a template damages, and a sentence that describes it."""

    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The input of a probe. `omission` describes what was left out because the template refused it."""

    text: str | None = _TEXT
    calls: tuple[Mapping[str, Any], ...] = (_HARD, _EASY)
    has_json_arguments: bool = False
    omission: str = ""

    def to_messages(self, format: Format) -> list[dict[str, Any]]:
        ids = format.ids
        tool_calls = [
            ToolCall.of("find_place", args, id=ids.sample("find_place", n)) for n, args in enumerate(self.calls)
        ]
        results = [ChatMessage.tool(call.id, _RESULTS[n], call.name) for n, call in enumerate(tool_calls)]
        ending = (ChatMessage.assistant(_ANSWER), ChatMessage.user(_AGAIN))
        whole = (ChatMessage.user(_QUESTION), ChatMessage.assistant(self.text or "", tool_calls), *results, *ending)
        messages = messages_of(whole, format)
        if self.text is None:
            messages[1]["content"] = None
        if self.has_json_arguments:
            for call in messages[1]["tool_calls"]:
                call["function"]["arguments"] = dumps(call["function"]["arguments"])
        return messages


_WHOLE = _Conversation()
_ONE = (_HARD,)
# Tried in order until the template accepts one. Each omission describes what the template does not accept.
_CONVERSATIONS = (
    _WHOLE,
    replace(_WHOLE, text="", omission="text beside calls"),
    replace(_WHOLE, calls=_ONE, omission="two calls in one turn"),
    replace(_WHOLE, calls=_ONE, text="", omission="two calls in one turn, or text beside a call"),
    replace(_WHOLE, has_json_arguments=True, omission="arguments as a mapping: it expects JSON text"),
    replace(_WHOLE, has_json_arguments=True, text="", omission="arguments as a mapping, or text beside calls"),
)
# Tried if calls are dropped: if a turn without text keeps its calls, the message names the turns that lose them.
_WITHOUT_TEXT = (
    (replace(_WHOLE, text=""), "a turn that has text"),
    (replace(_WHOLE, text=None), "a turn whose content is not null"),
    (replace(_WHOLE, text=None, has_json_arguments=True), "a turn whose content is not null"),
)


ProbeRequest: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
ProbeAnswer: TypeAlias = str | TemplateError


def probe_steps(format: Format) -> Generator[ProbeRequest, ProbeAnswer, tuple[TemplateFault, ...]]:
    """The probe as a generator: yields messages and tools, receives the rendered text or the template's error.

    The caller renders. So the same probe works on a local template and on one behind an engine.
    """
    tools = [tool.as_function() for tool in TOOLS]
    refusal = ""
    for conversation in _CONVERSATIONS:
        answer = yield conversation.to_messages(format), tools
        if isinstance(answer, TemplateError):
            refusal = refusal or answer.message
            continue
        faults: list[TemplateFault] = []
        for fault in _faults(conversation, answer, format, refusal):
            faults.append((yield from _narrow_fault(fault, format)) if fault.kind is FaultKind.DROPS_CALLS else fault)
        return tuple(faults)
    return (TemplateFault(FaultKind.REFUSES, f"It refuses a conversation with tools and calls: {refusal}."),)


def probe(
    template: ChatTemplate, format: Format, *, now: date = SAMPLE_DAY, **extras: Any
) -> tuple[TemplateFault, ...]:
    """Return the faults of the template; empty if there are none. `extras` are variables that it needs."""
    steps = probe_steps(format)
    request = next(steps)
    while True:
        try:
            answer: ProbeAnswer = template.render(*request, add_generation_prompt=False, now=now, **extras)
        except TemplateError as refusal:
            answer = refusal
        try:
            request = steps.send(answer)
        except StopIteration as done:
            return done.value


def sample(format: Format) -> ProbeRequest:
    """The conversation that a template is tried with first."""
    return _WHOLE.to_messages(format), [tool.as_function() for tool in TOOLS]


def shows_tools(output: str) -> bool:
    """Whether the rendered sample describes the tools to the model."""
    return _ABOUT in output


def _narrow_fault(fault: TemplateFault, format: Format) -> Generator[ProbeRequest, ProbeAnswer, TemplateFault]:
    """Name the turns that lose their calls, if not all do."""
    for conversation, turns in _WITHOUT_TEXT:
        answer = yield conversation.to_messages(format), [tool.as_function() for tool in TOOLS]
        if not isinstance(answer, TemplateError) and "find_place" in _turn_in(answer):
            return replace(fault, message=f"It drops the calls of {turns}.")
    return fault


def _faults(conversation: _Conversation, output: str, format: Format, refusal: str) -> Iterable[TemplateFault]:
    if conversation.omission:
        yield TemplateFault(FaultKind.REFUSES, f"It does not accept {conversation.omission} ({refusal}).")
    if _ABOUT not in output:
        yield TemplateFault(FaultKind.NO_TOOLS, "It does not show the tools to the model.")
    yield from _call_faults(conversation, _turn_in(output), format)
    lost = [text for text in _RESULTS[: len(conversation.calls)] if text not in output]
    if lost:
        whose = "a result" if len(lost) < len(conversation.calls) else "the results"
        yield TemplateFault(FaultKind.DROPS_RESULTS, f"It drops {whose} of the calls.")
    if conversation.text and conversation.text not in output:
        yield TemplateFault(FaultKind.DROPS_TEXT, "It drops the text of a turn that has calls.")


def _turn_in(output: str) -> str:
    """The text between the first question and the earliest of the results, the answer and the second question."""
    turn = output.partition(_QUESTION)[2]
    ends = [at for text in (*_RESULTS, _ANSWER, _AGAIN) if (at := turn.find(text)) >= 0]
    return turn[: min(ends)] if ends else turn


def _call_faults(conversation: _Conversation, turn: str, format: Format) -> Iterable[TemplateFault]:
    read = [call.arguments for call in parse(format, turn, TOOLS).calls if call.name == "find_place"]
    if not read:
        if "find_place" not in turn:
            yield TemplateFault(FaultKind.DROPS_CALLS, "It drops the calls of an assistant's turn.")
        else:
            yield _argument_fault(f"It writes calls that {format.name} does not parse.", turn)
        return
    if len(read) < len(conversation.calls):
        yield TemplateFault(
            FaultKind.FIRST_CALL_ONLY, f"It writes {len(read)} of {len(conversation.calls)} calls of a turn."
        )
    for expected, actual in zip(conversation.calls, read, strict=False):
        keys = [key for key in {**expected, **actual} if not _is_same(expected, actual, key)]
        if keys:
            yield _argument_fault(f"Different values come back for {', '.join(keys)}.", turn)
            return


def _is_same(expected: Mapping[str, Any], actual: Mapping[str, Any], key: str) -> bool:
    return key in expected and key in actual and canonical(expected[key]) == canonical(actual[key])


def _argument_fault(message: str, turn: str) -> TemplateFault:
    """Python's spelling is the cause if the turn contains it and does not contain JSON's."""
    if str(_HARD["more"]) in turn or ("None" in turn and "null" not in turn):
        return TemplateFault(FaultKind.PYTHON_REPR, f"It writes arguments as Python does, not as JSON. {message}")
    return TemplateFault(FaultKind.CHANGES_ARGUMENTS, f"It changes arguments. {message}")
