"""Legal streams of events to put through every dialect: calls side by side, calls cut off, receipts, diagnostics."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st

from ferrule import JsonSchema, ToolDefinition, fold
from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from ferrule.core.json_text import dumps, loads
from ferrule.core.reply import Reply

TOOLS = (
    ToolDefinition.build("get_weather")
    .parameter("city", JsonSchema.string(), required=True)
    .parameter("days", JsonSchema.integer())
    .done(),
    ToolDefinition.build("get").parameter("key", JsonSchema.string()).done(),
    ToolDefinition.build("ping").description("Says pong.").done(),
)

texts = st.one_of(
    st.text(alphabet=st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8),
    st.sampled_from(['}"', "{}", "\\", "é😀", "[DONE]", "data: x\n\n", "\r", "\u2028"]),
)
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)
arguments = st.dictionaries(texts, values, max_size=3).map(dumps)
receipts = st.sampled_from(
    [
        Receipt(how=How.GRAMMAR, engine="llama", path="completion+gbnf", rule="ab12", enforced=("type", "required")),
        Receipt(how=How.REPAIRED, engine='"é', path="chat", checked=("enum",), unchecked=("format",), seconds=0.25),
        Receipt(how=How.REFUSED, engine="e", path="p", format="hermes", tokens=7, notes=("it did not fit", "twice")),
    ]
)


BROKEN = ["[1, 2]", "12", "{'a': 1}", '{"a": nope}', '{"a": "x\ny"}', '{"a": 1,}', '{"a": "\\x"}']


def no_id(name: str, index: int) -> str:
    raise AssertionError("an id was made up though one had been sent")


def numbered_id(name: str, index: int) -> str:
    return f"made_{index}"


def through_json(value: Any) -> Any:
    """What the other side gets of it."""
    return loads(dumps(value))


def _pieces(text: str, luck: Random) -> list[str]:
    cuts = {luck.randrange(len(text) + 1) for _ in range(luck.randrange(4))} if text else set[int]()
    places = sorted({0, *cuts, len(text)})
    return [text[start:end] for start, end in pairwise(places)]


def _text_events(kind: type[TextDelta] | type[ReasoningDelta], text: str, luck: Random) -> list[Event]:
    return [kind(piece) for piece in _pieces(text, luck)]


@st.composite
def _call(draw: st.DrawFn, index: int, luck: Random, *, may_fail: bool) -> list[Event]:
    json = draw(arguments)
    start = CallStart(index, f"call_{index}", draw(st.sampled_from(TOOLS)).name)
    receipt = draw(st.none() | receipts)
    if not may_fail or draw(st.booleans()):
        pieces = _pieces(json, luck)
        return [start, *(ArgumentsDelta(index, piece) for piece in pieces), CallEnd(index, receipt=receipt)]
    # Cut off, followed by junk, no object at all, or whole and refused all the same.
    text = draw(st.sampled_from([json[: luck.randrange(len(json))], json + "}", json, *BROKEN]))
    note = Diagnostic("bad_arguments", "they are not right", index=index)
    pieces = _pieces(text, luck)
    return [start, *(ArgumentsDelta(index, piece) for piece in pieces), note, CallEnd(index, False, receipt)]


@st.composite
def streams(draw: st.DrawFn, *, in_order: bool = False) -> list[Event]:
    """In order: reasoning, text, complete calls, at most one call that is not; as APIs without an order can say it."""
    # Where to cut and what to mix is drawn as one number: a draw for each step would take most of the time.
    luck = Random(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, 3))
    calls = [draw(_call(index, luck, may_fail=not in_order or index == count - 1)) for index in range(count)]
    text_lists = st.lists(texts, max_size=1 if in_order else 2)
    thoughts, words = draw(text_lists), draw(text_lists)
    text_events = [_text_events(ReasoningDelta, text, luck) for text in thoughts]
    text_events += [_text_events(TextDelta, text, luck) for text in words]
    lanes = [*text_events, *calls]
    events = [event for lane in lanes for event in lane] if in_order else _mix(lanes, luck)
    if draw(st.booleans()):
        events.append(Diagnostic("odd", "something", draw(texts)))
    return [*events, draw(_finish(events))]


def _mix(lanes: list[list[Event]], luck: Random) -> list[Event]:
    """The lanes side by side, each in its own order; calls begin in theirs."""
    events: list[Event] = []
    waiting = [list(lane) for lane in lanes]
    while any(waiting):
        lane = luck.choice([lane for lane in waiting if lane])
        if isinstance(lane[0], CallStart):
            lane = next(other for other in waiting if other and isinstance(other[0], CallStart))
        events.append(lane.pop(0))
    return events


@st.composite
def _finish(draw: st.DrawFn, events: list[Event]) -> Finish:
    is_cut = draw(st.booleans())
    reason = FinishReason.LENGTH if is_cut else fold(events).finish_reason
    return Finish(reason, Usage(draw(st.integers(0, 99)), draw(st.integers(0, 99))))


def receipts_of(reply: Reply) -> dict[str, Receipt | None]:
    """Replies are equal whatever their receipts, so these are compared beside them."""
    return {part.id: part.receipt for part in reply.parts if isinstance(part, ToolCall)}


def is_object(json: str) -> bool:
    try:
        return isinstance(loads(json), dict)
    except ValueError:
        return False


def handed_on(reply: Reply) -> tuple[object, ...]:
    """What a client gets of a reply: incomplete calls are not begun, so the texts around them are one."""
    incomplete = {call.id: call.function for call in reply.incomplete}
    return reply.calls, reply.text, reply.reasoning, reply.finish, reply.usage, reply.diagnostics, incomplete
