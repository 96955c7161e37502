"""Answers of several rounds in which the gateway runs some calls: steps for an encoder, in the loop's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from dialects.replies import TOOLS, streams
from ferrule import CallStart, ChatMessage, Event, Reply, ToolCall, ToolCallRequest, ToolResult, fold
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.response_body import head_of

WEATHER, GET, PING = TOOLS
REQUEST = ToolCallRequest(messages=(ChatMessage.user("x"),), tools=(PING,))
HEAD = head_of(id="resp_1", model="m", created=7, request=REQUEST)
HOSTED = {
    WEATHER.name: HostedTool(WEATHER, "sky"),
    GET.name: HostedTool(GET, "store", name="fetch", may_need_approval=True),
}
"""The first is streamed, the second may need approval; `ping` is the client's."""

Events = list[dict[str, Any]]
Step = Callable[[HostedEncoder], Events]


@dataclass(frozen=True, slots=True)
class Script:
    """`steps` feed an encoder everything but the end. `waits`: the last round ended with waiting calls."""

    steps: list[Step]
    replies: list[Reply]
    ran: dict[str, ToolResult]
    started: list[ToolCall]
    pending: dict[str, ToolCall]

    @property
    def waits(self) -> bool:
        return bool(self.pending)

    def encode_all(self, encoder: HostedEncoder) -> Events:
        return [event for step in self.steps for event in step(encoder)]


def encoder() -> HostedEncoder:
    return HostedEncoder(HEAD, HOSTED)


@st.composite
def scripts(draw: st.DrawFn, *, prefix: str = "a") -> Script:
    """`prefix` tells the ids of one script from those of another."""
    script = Script([], [], {}, [], {})
    count = draw(st.integers(1, 3))
    for number in range(count):
        events = _renumber(draw(streams()), f"{prefix}{number}")
        script.steps.extend(_feed_step(event) for event in events)
        reply = fold(events)
        script.replies.append(reply)
        luck = Random(draw(st.integers(0, 2**32)))
        _run(script, [call for call in reply.calls if call.name in HOSTED], luck, is_last=number == count - 1)
    return script


def _run(script: Script, calls: list[ToolCall], luck: Random, *, is_last: bool) -> None:
    """Some run, side by side; some are refused and never start; some wait, in the last round for good."""
    lanes: list[list[Step]] = []
    for call in calls:
        fate = luck.choice(["runs", "fails", "waited", "waits" if is_last else "waited", "never"])
        if HOSTED[call.name].may_need_approval and fate == "waits":
            script.pending[f"appr_{call.id}"] = call
            lanes.append([_approval_step(call)])
            continue
        if fate in ("never", "waits"):
            continue
        result = ToolResult(call.id, call.name, {"n": luck.randrange(9)}, is_error=fate == "fails")
        script.ran[call.id] = result
        script.started.append(call)
        before = [_approval_step(call)] if fate == "waited" and HOSTED[call.name].may_need_approval else []
        lanes.append([*before, _start_step(call), _progress_step(call), _finish_step(result)])
    while lanes:
        lane = luck.choice(lanes)
        script.steps.append(lane.pop(0))
        lanes = [lane for lane in lanes if lane]


def _renumber(events: list[Event], prefix: str) -> list[Event]:
    """Ids that no other round has: a client takes two calls with one id for the same."""
    return [replace(event, id=f"{prefix}_{event.id}") if isinstance(event, CallStart) else event for event in events]


def _feed_step(event: Event) -> Step:
    return lambda encoder: encoder.feed(event)


def _approval_step(call: ToolCall) -> Step:
    return lambda encoder: encoder.request_approval(call, f"appr_{call.id}")


def _start_step(call: ToolCall) -> Step:
    return lambda encoder: encoder.start_tool(call)


def _progress_step(call: ToolCall) -> Step:
    return lambda encoder: encoder.report_progress(call.id, {"done": 1, "total": 2})


def _finish_step(result: ToolResult) -> Step:
    return lambda encoder: encoder.finish_tool(result)


def check_events(events: Events) -> dict[int, dict[str, Any]]:
    """What holds for every response that has ended, however. Gives its items by their places."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert {event["response"]["id"] for event in events if "response" in event} == {HEAD["id"]}
    begun: dict[int, dict[str, Any]] = {}
    done: dict[int, dict[str, Any]] = {}
    parts: set[int] = set()
    for event in events:
        at: Any = event.get("output_index")
        match event["type"]:
            case "response.output_item.added":
                assert at == len(begun)
                begun[at] = event["item"]
            case "response.output_item.done":
                assert at not in done
                done[at] = event["item"]
                assert (event["item"]["id"], event["item"]["type"]) == (begun[at]["id"], begun[at]["type"])
            case kind if at is not None:
                assert event["item_id"] == begun[at]["id"]
                assert at not in done
                if kind == "response.content_part.added":
                    parts.add(at)
                assert "content_index" not in event or at in parts
            case _:
                pass
    assert done.keys() == begun.keys()
    ids = [item["id"] for item in done.values()]
    assert len(set(ids)) == len(ids)
    last = events[-1]
    assert last["type"] in ("response.completed", "response.incomplete", "response.failed")
    assert last["response"]["output"] == [done[at] for at in range(len(done))]
    return done
