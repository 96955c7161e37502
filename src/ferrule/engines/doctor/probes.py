"""The table of probes: choices, schemas, streams, answers. A row is a demand; nothing here knows any engine."""

from __future__ import annotations

from typing import Any

from ferrule.engines.doctor.client import Question
from ferrule.engines.doctor.elicitation import Call, Lever
from ferrule.engines.doctor.keywords import SCHEMA_PROBES
from ferrule.engines.doctor.observations import (
    calls_of,
    finish_word,
    fitting_text,
    good_ids,
    in_pieces,
    no_call,
    one_call,
    same_in_pieces,
    some_call,
    unless_refused,
    usage_told,
    well_refused,
)
from ferrule.engines.doctor.probe import Asked, Probe
from ferrule.engines.doctor.sample_tools import CITY, HELLO, NOTE, body_of, closed, named, tool

_NOTES: tuple[Call, ...] = (
    ("send_note", {"text": "the train leaves at noon"}),
    ("send_note", {"text": "please bring two apples"}),
    ("send_note", {"text": "the shop is closed today"}),
)
_CITY: Call = ("find_city", {"city": "Paris"})
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
_ANSWER = closed({"mood": {"type": "string", "enum": ["good", "bad"]}, "score": {"enum": [1, 2, 3]}})
_ANSWERING = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _ANSWER, "strict": True}}
_ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named("find_city")]}}
# Strict, so that an engine which looks at no other schema looks at this one.
_WRONG = tool("send_note", "Sends a short note.", closed({"text": {"type": "nosuch"}}), strict=True)


def _pulled(*more: Call, **settings: Any) -> Asked:
    """The model is pulled to send a note, and to make these calls as well; both tools are offered."""

    def asked(lever: Lever, run: int) -> list[Question | None]:
        said = lever.said(_NOTES[run % len(_NOTES)], *more)
        return [Question(body_of(said, [NOTE, CITY], **settings)) if said else None]

    return asked


def _greeted(**settings: Any) -> Asked:
    """The model is told something that asks for no call."""
    return lambda _, __: [Question(body_of(HELLO, **settings))]


def _finish(choice: Any) -> Asked:
    """The one tool is offered, so that it is called whatever the choice is."""

    def asked(lever: Lever, run: int) -> list[Question | None]:
        said = lever.said(_NOTES[run % len(_NOTES)])
        return [Question(body_of(said, [NOTE], tool_choice=choice)) if said else None]

    return asked


def _three_ways(lever: Lever, run: int) -> list[Question | None]:
    said = lever.said(_NOTES[run % len(_NOTES)])
    if not said:
        return [None]
    body = body_of(said, [NOTE], temperature=0)
    return [Question({**body, **_STREAM}), Question(body), Question(body, again=1)]


def _wrong_then_right(_: Lever, run: int) -> list[Question | None]:
    wrong = body_of(HELLO, [_WRONG], tool_choice="required")
    return [Question(wrong, may_break=True), Question(body_of(HELLO), again=1 + run, may_break=True)]


_BOTH = {"tools": [NOTE, CITY]}
_ONE = unless_refused

PROBES: tuple[Probe, ...] = (
    Probe(
        name="required",
        asked=_greeted(**_BOTH, tool_choice="required"),
        without=_greeted(**_BOTH),
        seen=_ONE(some_call),
        needs_call=False,
    ),
    Probe(
        name="named",
        asked=_pulled(tool_choice=named("find_city")),
        without=_pulled(),
        seen=_ONE(calls_of("find_city")),
    ),
    Probe(name="allowed", asked=_pulled(tool_choice=_ALLOWED), without=_pulled(), seen=_ONE(calls_of("find_city"))),
    Probe(name="none", asked=_pulled(tool_choice="none"), without=_pulled(), seen=_ONE(no_call)),
    Probe(
        name="parallel off",
        asked=_pulled(_CITY, parallel_tool_calls=False),
        without=_pulled(_CITY, parallel_tool_calls=True),
        seen=_ONE(one_call),
    ),
    *SCHEMA_PROBES,
    Probe(name="stream: argument deltas", asked=_pulled(**_STREAM), seen=_ONE(in_pieces)),
    Probe(name="stream: same as whole", asked=_three_ways, seen=same_in_pieces),
    Probe(name="stream: ids", asked=_pulled(_CITY, **_STREAM, parallel_tool_calls=True), seen=_ONE(good_ids)),
    Probe(name="stream: usage", asked=_greeted(**_STREAM), seen=_ONE(usage_told), needs_call=False),
    Probe(name="finish reason: auto", asked=_finish("auto"), seen=_ONE(finish_word)),
    Probe(name="finish reason: required", asked=_finish("required"), seen=_ONE(finish_word)),
    Probe(name="finish reason: named", asked=_finish(named("send_note")), seen=_ONE(finish_word)),
    Probe(
        name="answer schema",
        asked=_greeted(response_format=_ANSWERING),
        without=_greeted(),
        seen=_ONE(fitting_text(_ANSWER)),
        needs_call=False,
    ),
    Probe(
        name="answer schema beside tools",
        asked=_greeted(**_BOTH, response_format=_ANSWERING),
        without=_greeted(**_BOTH),
        seen=_ONE(fitting_text(_ANSWER, or_call=True)),
        needs_call=False,
    ),
    Probe(
        name="call beside an answer schema", asked=_pulled(response_format=_ANSWERING), seen=_ONE(calls_of("send_note"))
    ),
    Probe(name="bad schema refused", asked=_wrong_then_right, seen=well_refused, needs_call=False, is_last=True),
)
