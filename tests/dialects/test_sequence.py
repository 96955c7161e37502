"""Events in an order that every API can encode, and arguments that are sent only as far as it is safe."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dialects.replies import arguments, is_object, streams
from ferrule import ArgumentsDelta, CallEnd, CallStart, Event, Finish, FinishReason, fold
from ferrule.core.json_text import loads
from ferrule.dialects.sequence import EventSequence
from ferrule.schema.reader import Reader


def send_through(pieces: list[str]) -> str:
    """What of a call's arguments goes out before its end is known."""
    sequence = EventSequence(is_live=True)
    sequence.feed(CallStart(0, "c", "f"))
    out = [event for piece in pieces for event in sequence.feed(ArgumentsDelta(0, piece))]
    return "".join(event.json for event in out if isinstance(event, ArgumentsDelta))


@given(streams(), st.booleans())
def test_calls_follow_each_other_and_the_sum_stays_the_same(events: list[Event], is_live: bool) -> None:
    sequence = EventSequence(is_live=is_live)
    out = [plain for event in events for plain in sequence.feed(event)] + sequence.close()
    steps = [event for event in out if isinstance(event, CallStart | CallEnd)]
    assert all(
        isinstance(start, CallStart) and isinstance(end, CallEnd) and start.index == end.index
        for start, end in zip(steps[::2], steps[1::2], strict=True)
    )
    assert [start.index for start in steps[::2]] == list(range(len(steps) // 2))
    reply, summed = fold(events), fold(out)
    assert summed.calls == reply.calls
    assert (summed.text, summed.reasoning) == (reply.text, reply.reasoning)
    assert sequence.extension.diagnostics == reply.diagnostics
    assert sequence.extension.incomplete == {call.id: call.function for call in reply.incomplete}


texts = st.one_of(
    arguments, arguments.map(lambda json: json + "}"), st.text(alphabet='{}[]":,\\ tru1-.en\n', max_size=12)
)


def problem_of(json: str) -> str:
    try:
        loads(json)
    except ValueError as error:
        return str(error)
    return ""


@given(texts, st.lists(st.integers(0, 30)))
@example("1:", [])
@example('{"a": "x\ny"}', [])
def test_what_is_sent_early_begins_an_object_and_never_ends_it(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    early = send_through([text[start:end] for start, end in pairwise(places)])
    assert text.startswith(early)
    assert not is_object(early)
    reader = Reader()
    reader.read(early, 0, False)
    assert not reader.is_bad
    assert "control character" not in problem_of(early)
    assert early == "" or early.lstrip().startswith("{")


@pytest.mark.parametrize(
    "text, early",
    [
        ('{"a": 1', '{"a": '),
        ('{"a": 12, ', '{"a": 12,'),
        ('{"a": "xy', '{"a": "xy'),
        ('{"a": "x}', '{"a": "x'),
        ('{"a": {"b": []}}', '{"a": {"b": []'),
        ('{"a": nope', '{"a": '),
        ("[1, 2]", ""),
        ("12", ""),
        ("{}", "{"),
        ("{}}", "{"),
        ('{\n  "a": "x', '{\n  "a": "x'),
        ('{"a": "x\ny"}', '{"a": "x'),
    ],
)
def test_arguments_go_out_as_far_as_they_are_certain(text: str, early: str) -> None:
    assert send_through(list(text)) == early


@given(streams())
def test_nothing_of_a_call_comes_out_before_it_is_complete(events: list[Event]) -> None:
    sequence, reply = EventSequence(), fold(events)
    whole = {call.id for call in reply.calls}
    for event in events:
        out = sequence.feed(event)
        assert all(one.id in whole for one in out if isinstance(one, CallStart))
        kinds = [type(one) for one in out if isinstance(one, CallStart | ArgumentsDelta | CallEnd)]
        assert kinds.count(CallStart) == kinds.count(CallEnd) >= kinds.count(ArgumentsDelta)


def test_a_live_call_that_has_no_end_is_ended_before_the_finish() -> None:
    sequence = EventSequence(is_live=True)
    sequence.feed(CallStart(4, "c", "f"))
    assert sequence.feed(Finish(FinishReason.TOOL_CALLS)) == [CallEnd(0, complete=False), Finish(FinishReason.STOP)]
