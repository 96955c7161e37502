"""Probe: does a chat template damage what it is given to write? Found by trying, not by reading its source.

A made-up conversation (a turn of text and two calls with hard arguments, their results, an answer, a second question)
is rendered; what stands between the question and the first result is what the template made of the assistant's turn.
It is read by the format's own parser and compared with what was put in.

Faults are decided by meaning. A template that writes `True` for `true` has no fault where our parser reads the same
value from it: the model's next call will be read in the same way. Only where another value comes back is it a fault,
and then `python_repr` says that Python's spelling is the cause, `changes_arguments` that something else is.
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
"""What templates are told when they ask for the date, so that two probes give the same."""

_QUESTION, _SAID, _ANSWER, _AGAIN = "QUESTION-ONE", "TEXT-ONE", "ANSWER-ONE", "QUESTION-TWO"
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
    # Without a type: several templates recurse for ever on a list of types.
    .parameter("limit", {"description": "the most"})
    .parameter("ratio", JsonSchema.number("of what"))
    .parameter("more", {"type": "object", "description": "all else"})
    .done(),
    # Templates read `required` without asking whether it is there.
    ToolDefinition("ping", "Nothing.", {"type": "object", "properties": {}, "required": []}),
)


class FaultKind(StrEnum):
    """What a template does to a conversation, from the worst to the least."""

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
    """One thing that a template damages, and a sentence that says so."""

    kind: FaultKind
    told: str


@dataclass(frozen=True, slots=True)
class _Conversation:
    """What is put in, and what has been left out of it since the template refused it."""

    text: str | None = _SAID
    calls: tuple[Mapping[str, Any], ...] = (_HARD, _EASY)
    has_json_arguments: bool = False
    left_out: str = ""

    def spelled(self, format: Format) -> list[dict[str, Any]]:
        ids = format.ids
        made = [ToolCall.of("find_place", args, id=ids.sample("find_place", n)) for n, args in enumerate(self.calls)]
        results = [ChatMessage.tool(call.id, _RESULTS[n], call.name) for n, call in enumerate(made)]
        ended = (ChatMessage.assistant(_ANSWER), ChatMessage.user(_AGAIN))
        whole = (ChatMessage.user(_QUESTION), ChatMessage.assistant(self.text or "", made), *results, *ended)
        messages = messages_of(whole, format)
        if self.text is None:
            messages[1]["content"] = None
        if self.has_json_arguments:
            for call in messages[1]["tool_calls"]:
                call["function"]["arguments"] = dumps(call["function"]["arguments"])
        return messages


_WHOLE = _Conversation()
_ONE = (_HARD,)
# Tried in order until the template takes one: each says what the template cannot take.
_CONVERSATIONS = (
    _WHOLE,
    replace(_WHOLE, text="", left_out="text beside calls"),
    replace(_WHOLE, calls=_ONE, left_out="two calls in one turn"),
    replace(_WHOLE, calls=_ONE, text="", left_out="two calls in one turn, or text beside a call"),
    replace(_WHOLE, has_json_arguments=True, left_out="arguments as a mapping: it wants JSON text"),
    replace(_WHOLE, has_json_arguments=True, text="", left_out="arguments as a mapping, or text beside calls"),
)
# Where calls are dropped: would they be written in a turn without text, and what is lost is told so.
_WITHOUT_TEXT = (
    (replace(_WHOLE, text=""), "a turn that has text"),
    (replace(_WHOLE, text=None), "a turn whose content is not null"),
    (replace(_WHOLE, text=None, has_json_arguments=True), "a turn whose content is not null"),
)


Asked: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
Answer: TypeAlias = str | TemplateError


def probing(format: Format) -> Generator[Asked, Answer, tuple[TemplateFault, ...]]:
    """The probe as questions: yields messages and tools, takes what the template wrote or how it refused.

    Whoever has the template answers, whether it is here or behind an engine.
    """
    tools = [tool.as_function() for tool in TOOLS]
    refusal = ""
    for given in _CONVERSATIONS:
        answer = yield given.spelled(format), tools
        if isinstance(answer, TemplateError):
            refusal = refusal or answer.message
            continue
        found: list[TemplateFault] = []
        for fault in _faults(given, answer, format, refusal):
            found.append((yield from _sharper(fault, format)) if fault.kind is FaultKind.DROPS_CALLS else fault)
        return tuple(found)
    return (TemplateFault(FaultKind.REFUSES, f"It refuses a conversation with tools and calls: {refusal}."),)


def probe(
    template: ChatTemplate, format: Format, *, now: date = SAMPLE_DAY, **extras: Any
) -> tuple[TemplateFault, ...]:
    """What the template damages; empty where nothing was found. `extras` are variables that it needs."""
    questions = probing(format)
    asked = next(questions)
    while True:
        try:
            answer: Answer = template.render(*asked, add_generation_prompt=False, now=now, **extras)
        except TemplateError as refusal:
            answer = refusal
        try:
            asked = questions.send(answer)
        except StopIteration as done:
            return done.value


def sample(format: Format) -> Asked:
    """The conversation that a template is first tried with."""
    return _WHOLE.spelled(format), [tool.as_function() for tool in TOOLS]


def shows_tools(written: str) -> bool:
    """Whether what a template wrote of the sample tells the model about its tools."""
    return _ABOUT in written


def _sharper(fault: TemplateFault, format: Format) -> Generator[Asked, Answer, TemplateFault]:
    """Which turns lose their calls, where not all do."""
    for given, whose in _WITHOUT_TEXT:
        answer = yield given.spelled(format), [tool.as_function() for tool in TOOLS]
        if not isinstance(answer, TemplateError) and "find_place" in _turn_in(answer):
            return replace(fault, told=f"It drops the calls of {whose}.")
    return fault


def _faults(given: _Conversation, written: str, format: Format, refusal: str) -> Iterable[TemplateFault]:
    if given.left_out:
        yield TemplateFault(FaultKind.REFUSES, f"It does not take {given.left_out} ({refusal}).")
    if _ABOUT not in written:
        yield TemplateFault(FaultKind.NO_TOOLS, "It does not show the tools to the model.")
    yield from _call_faults(given, _turn_in(written), format)
    lost = [mark for mark in _RESULTS[: len(given.calls)] if mark not in written]
    if lost:
        whose = "a result" if len(lost) < len(given.calls) else "the results"
        yield TemplateFault(FaultKind.DROPS_RESULTS, f"It drops {whose} of the calls.")
    if given.text and given.text not in written:
        yield TemplateFault(FaultKind.DROPS_TEXT, "It drops the text of a turn that has calls.")


def _turn_in(written: str) -> str:
    """What stands between the first question and whatever of the rest comes first."""
    turn = written.partition(_QUESTION)[2]
    ends = [at for mark in (*_RESULTS, _ANSWER, _AGAIN) if (at := turn.find(mark)) >= 0]
    return turn[: min(ends)] if ends else turn


def _call_faults(given: _Conversation, turn: str, format: Format) -> Iterable[TemplateFault]:
    read = [call.arguments for call in parse(format, turn, TOOLS).calls if call.name == "find_place"]
    if not read:
        if "find_place" not in turn:
            yield TemplateFault(FaultKind.DROPS_CALLS, "It drops the calls of an assistant's turn.")
        else:
            yield _changed(f"It writes calls that {format.name} does not read.", turn)
        return
    if len(read) < len(given.calls):
        yield TemplateFault(FaultKind.FIRST_CALL_ONLY, f"It writes {len(read)} of {len(given.calls)} calls of a turn.")
    for put_in, came_back in zip(given.calls, read, strict=False):
        keys = [key for key in {**put_in, **came_back} if not _is_same(put_in, came_back, key)]
        if keys:
            yield _changed(f"Other values come back for {', '.join(keys)}.", turn)
            return


def _is_same(put_in: Mapping[str, Any], came_back: Mapping[str, Any], key: str) -> bool:
    return key in put_in and key in came_back and canonical(put_in[key]) == canonical(came_back[key])


def _changed(told: str, turn: str) -> TemplateFault:
    """Python's spelling is the cause where the turn has it and has JSON's nowhere."""
    if str(_HARD["more"]) in turn or ("None" in turn and "null" not in turn):
        return TemplateFault(FaultKind.PYTHON_REPR, f"It writes arguments as Python does, not as JSON. {told}")
    return TemplateFault(FaultKind.CHANGES_ARGUMENTS, f"It changes arguments. {told}")
