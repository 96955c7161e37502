"""The table of probes: tool choice, schemas, streaming, answers. Must not know any engine."""

from __future__ import annotations

from typing import Any

from ferrule.dialects.openai_chat.tool_choice import tool_body
from ferrule.engines.doctor.client import ProbeRequest
from ferrule.engines.doctor.elicitation import Call, CallElicitation
from ferrule.engines.doctor.keywords import SCHEMA_PROBES
from ferrule.engines.doctor.observations import (
    argument_deltas,
    bad_schema_refusal,
    call_ids,
    call_is_read,
    finish_reason,
    no_call,
    one_call,
    only_calls_of,
    same_when_streamed,
    some_call,
    text_fits,
    unless_refused,
    usage_report,
)
from ferrule.engines.doctor.probe import BuildRequests, Probe
from ferrule.engines.doctor.sample_tools import (
    CITY,
    HELLO,
    NOTE,
    NOTE_TOOL,
    closed_object,
    named_choice,
    request_body,
    tool,
)

_NOTES: tuple[Call, ...] = (
    ("send_note", {"text": "the train leaves at noon"}),
    ("send_note", {"text": "please bring two apples"}),
    ("send_note", {"text": "the shop is closed today"}),
)
_CITY: Call = ("find_city", {"city": "Paris"})
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
_ANSWER_SCHEMA = closed_object({"mood": {"type": "string", "enum": ["good", "bad"]}, "score": {"enum": [1, 2, 3]}})
_RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _ANSWER_SCHEMA, "strict": True}}
_ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named_choice("find_city")]}}
# Strict, so that engines that validate only strict schemas look at it.
_WRONG = tool("send_note", "Sends a short note.", closed_object({"text": {"type": "nosuch"}}), strict=True)
_RIGHT = tool_body(NOTE_TOOL, strict=True)


def _request_note(*more: Call, **settings: Any) -> BuildRequests:
    """Prompt the model to send a note and to make these calls; both tools are offered."""

    def requests(elicitation: CallElicitation, run: int) -> list[ProbeRequest | None]:
        messages = elicitation.messages(_NOTES[run % len(_NOTES)], *more)
        return [ProbeRequest(request_body(messages, [NOTE, CITY], **settings)) if messages else None]

    return requests


def _request_greeting(**settings: Any) -> BuildRequests:
    """Send a greeting that needs no call."""
    return lambda _, __: [ProbeRequest(request_body(HELLO, **settings))]


def _request_only_note(choice: Any) -> BuildRequests:
    """Offer only one tool, so that it is called whatever the choice is."""

    def requests(elicitation: CallElicitation, run: int) -> list[ProbeRequest | None]:
        messages = elicitation.messages(_NOTES[run % len(_NOTES)])
        return [ProbeRequest(request_body(messages, [NOTE], tool_choice=choice)) if messages else None]

    return requests


def _three_ways(elicitation: CallElicitation, run: int) -> list[ProbeRequest | None]:
    messages = elicitation.messages(_NOTES[run % len(_NOTES)])
    if not messages:
        return [None]
    body = request_body(messages, [NOTE], temperature=0)
    return [ProbeRequest({**body, **_STREAM}), ProbeRequest(body), ProbeRequest(body, repeat=1)]


def _wrong_then_right(_: CallElicitation, run: int) -> list[ProbeRequest | None]:
    wrong = request_body(HELLO, [_WRONG], tool_choice="required")
    right = request_body(HELLO, [_RIGHT], tool_choice="required")
    return [
        ProbeRequest(wrong, may_crash=True),
        ProbeRequest(request_body(HELLO), repeat=1 + run, may_crash=True),
        ProbeRequest(right, may_crash=True),
    ]


_BOTH = {"tools": [NOTE, CITY]}
_ONE = unless_refused

PROBES: tuple[Probe, ...] = (
    Probe(
        name="calls are read",
        requests=_request_only_note("auto"),
        observe=_ONE(call_is_read(NOTE_TOOL)),
        needs_call=False,
    ),
    Probe(
        name="required",
        requests=_request_greeting(**_BOTH, tool_choice="required"),
        control=_request_greeting(**_BOTH),
        observe=_ONE(some_call),
        needs_call=False,
    ),
    Probe(
        name="named",
        requests=_request_note(tool_choice=named_choice("find_city")),
        control=_request_note(),
        observe=_ONE(only_calls_of("find_city")),
    ),
    Probe(
        name="allowed",
        requests=_request_note(tool_choice=_ALLOWED),
        control=_request_note(),
        observe=_ONE(only_calls_of("find_city")),
    ),
    Probe(name="none", requests=_request_note(tool_choice="none"), control=_request_note(), observe=_ONE(no_call)),
    Probe(
        name="parallel off",
        requests=_request_note(_CITY, parallel_tool_calls=False),
        control=_request_note(_CITY, parallel_tool_calls=True),
        observe=_ONE(one_call),
    ),
    *SCHEMA_PROBES,
    Probe(name="stream: argument deltas", requests=_request_note(**_STREAM), observe=_ONE(argument_deltas)),
    Probe(name="stream: same as whole", requests=_three_ways, observe=same_when_streamed),
    Probe(
        name="stream: ids", requests=_request_note(_CITY, **_STREAM, parallel_tool_calls=True), observe=_ONE(call_ids)
    ),
    Probe(name="stream: usage", requests=_request_greeting(**_STREAM), observe=_ONE(usage_report), needs_call=False),
    Probe(name="finish reason: auto", requests=_request_only_note("auto"), observe=_ONE(finish_reason)),
    Probe(name="finish reason: required", requests=_request_only_note("required"), observe=_ONE(finish_reason)),
    Probe(
        name="finish reason: named", requests=_request_only_note(named_choice("send_note")), observe=_ONE(finish_reason)
    ),
    Probe(
        name="answer schema",
        requests=_request_greeting(response_format=_RESPONSE_FORMAT),
        control=_request_greeting(),
        observe=_ONE(text_fits(_ANSWER_SCHEMA)),
        needs_call=False,
    ),
    Probe(
        name="answer schema beside tools",
        requests=_request_greeting(**_BOTH, response_format=_RESPONSE_FORMAT),
        control=_request_greeting(**_BOTH),
        observe=_ONE(text_fits(_ANSWER_SCHEMA, or_call=True)),
        needs_call=False,
    ),
    Probe(
        name="call beside an answer schema",
        requests=_request_note(response_format=_RESPONSE_FORMAT),
        observe=_ONE(only_calls_of("send_note")),
    ),
    Probe(
        name="bad schema refused",
        requests=_wrong_then_right,
        observe=bad_schema_refusal,
        needs_call=False,
        is_last=True,
    ),
)
