"""Loops in a client's history are found, and healthy histories are never touched."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ferrule import ChatMessage, FunctionCall, ToolCall, ToolCallRequest, ToolChoice, ToolDefinition, ToolResult
from ferrule.core.media import Media
from ferrule.core.message import Role
from ferrule.run.call_loops import CallLoop, GuardedRequest, guard_request, loop_text

STRING = {"type": "string"}
TOOLS = (ToolDefinition("read", "", {"type": "object", "properties": {"path": STRING}}), ToolDefinition("ping"))


def image(text: str) -> Media:
    return Media("image", "image/png", data=text.encode())


class Trace:
    """A history of an agent, as messages."""

    def __init__(self) -> None:
        self.messages = [ChatMessage.user("Fix the failing test.")]
        self._calls = 0

    def round(
        self, *steps: tuple[str, str, str], text: str = "", is_error: bool = False, images: Sequence[str] = ()
    ) -> None:
        """One reply with calls, each with its tool, its argument and its result."""
        calls = [
            ToolCall(f"c{self._calls + at}", name=step[0], arguments={"path": step[1]}) for at, step in enumerate(steps)
        ]
        self._calls += len(calls)
        self.messages.append(ChatMessage.assistant(text, calls))
        for call, step in zip(calls, steps, strict=True):
            result = ToolResult(call.id, step[0], step[2], is_error, media=map(image, images))
            self.messages.append(ChatMessage(Role.TOOL, (result,)))

    def turn(self, text: str) -> None:
        """The model answers, and the user asks for more."""
        self.messages += [ChatMessage.assistant("Done."), ChatMessage.user(text)]

    @property
    def request(self) -> ToolCallRequest:
        return ToolCallRequest(messages=tuple(self.messages), tools=TOOLS)


def counts(pattern: str) -> dict[str, int]:
    trace = Trace()
    for letter in pattern:
        trace.round(("read", letter, "nothing new"))
    return {loop.call.arguments[9]: loop.count for loop in guard_request(trace.request).loops}


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("AA", {}),
        ("AAA", {"A": 3}),
        ("AAAA", {"A": 4}),
        ("ABABA", {"A": 3}),
        ("ABCABCABC", {"A": 3, "B": 3, "C": 3}),
        ("AXAYAZA", {}),
        ("AAAX", {}),
        ("AAXAA", {}),
        ("XAAA", {"A": 3}),
        ("AABAAB", {"A": 4}),
    ],
)
def test_what_is_counted_is_the_end_of_the_history_in_which_nothing_is_new(
    pattern: str, expected: dict[str, int]
) -> None:
    assert counts(pattern) == expected


def test_equal_calls_of_one_reply_are_one_repetition() -> None:
    trace = Trace()
    trace.round(*[("read", "a", "nothing new")] * 5)
    assert guard_request(trace.request) == GuardedRequest(trace.request)
    trace.round(*[("read", "a", "nothing new")] * 5)
    assert guard_request(trace.request) == GuardedRequest(trace.request)
    trace.round(*[("read", "a", "nothing new")] * 5)
    assert [loop.count for loop in guard_request(trace.request).loops] == [3]


def test_results_whose_images_differ_are_different_and_a_hint_leaves_the_images() -> None:
    changing, frozen = Trace(), Trace()
    for number in range(6):
        changing.round(("read", "screen", "a screenshot"), images=[f"{number}"])
        frozen.round(("read", "screen", "a screenshot"), images=["0"])
    assert guard_request(changing.request) == GuardedRequest(changing.request)
    guarded = guard_request(frozen.request)
    assert [loop.action for loop in guarded.loops] == ["excluded"]
    results = [result for message in guarded.request.messages for result in message.results]
    assert [result.media for result in results] == [(image("0"),)] * 6


def test_the_order_of_the_arguments_does_not_matter_and_their_values_do() -> None:
    trace = Trace()
    for text in ('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{ "a": 1, "b": 2 }'):
        id = f"c{len(trace.messages)}"
        trace.messages += [
            ChatMessage.assistant("", [ToolCall(id, FunctionCall("read", text))]),
            ChatMessage.tool(id, "the same", "read"),
        ]
    assert guard_request(trace.request).loops == (CallLoop(FunctionCall("read", '{"a":1,"b":2}'), 3, "hint"),)


def test_the_fourth_call_with_one_result_is_excluded_and_a_required_call_is_no_longer_demanded() -> None:
    trace = Trace()
    for _ in range(4):
        trace.round(("read", "a", "nothing new"))
    guarded = guard_request(replace(trace.request, tool_choice=ToolChoice.one("read")))
    assert guarded.request.excluded_calls == (FunctionCall("read", '{"path":"a"}'),)
    assert guarded.request.tool_choice == ToolChoice.allowed(["read"])
    assert loop_text(guarded.loops) == "read=excluded"


def test_a_hint_depends_only_on_what_came_before_it() -> None:
    trace = Trace()
    for letter in "AAAABABXAAA":
        trace.round(("read", letter, "nothing new"))
    whole = guard_request(trace.request).request.messages
    for length in range(1, len(trace.messages)):
        part = guard_request(replace(trace.request, messages=trace.messages[:length])).request.messages
        assert part == whole[:length]


def test_a_new_turn_of_the_user_starts_over_and_text_beside_results_does_not() -> None:
    trace = Trace()
    for _ in range(6):
        trace.round(("read", "a", "nothing new"))
        trace.turn("Once more.")
    request = trace.request
    assert guard_request(request).request is request
    for _ in range(3):
        trace.round(("read", "a", "nothing new"))
        trace.messages.append(ChatMessage.user("A reminder."))
    assert [loop.count for loop in guard_request(trace.request).loops] == [3]


def test_the_header_names_only_what_a_tool_can_be_called_and_is_short() -> None:
    names = ["a\r\nset-cookie: b=c", "\ud800", "é", *(f"tool_{at}" for at in range(500))]
    loops = [CallLoop(FunctionCall(name, "{}"), 3, "hint") for name in names]
    text = loop_text(loops)
    assert text.startswith("other=hint, other=hint, other=hint, tool_0=hint, ")
    assert text.endswith(", tool_11=hint, 488-more")


def test_calls_without_results_and_results_without_calls_are_no_loop() -> None:
    messages = [ChatMessage.user("Hello.")]
    for at in range(9):
        messages.append(ChatMessage.assistant("", [ToolCall(f"c{at}", FunctionCall("read", "not JSON"))]))
        messages.append(ChatMessage.tool(f"other{at}", "the same", "read"))
    request = ToolCallRequest(messages=messages, tools=TOOLS)
    assert guard_request(request).request is request


def _read_several_files(trace: Trace, random: random.Random) -> None:
    for at in range(random.randint(3, 9)):
        trace.round(("read", f"src/{random.random()}.py", random.choice(["", f"text {at}"])))


def _poll(trace: Trace, random: random.Random) -> None:
    for at in range(random.randint(3, 9)):
        trace.round(("status", "job 7", f"running, {at * 10 + random.randint(0, 9)}%"))


def _retry_after_errors(trace: Trace, random: random.Random) -> None:
    command = f"install {random.random()}"
    for _ in range(random.randint(1, 2)):
        trace.round(("bash", command, "connection lost"), is_error=True)
    trace.round(("bash", command, "installed"))


def _read_again_after_edits(trace: Trace, random: random.Random) -> None:
    path = f"src/{random.random()}.py"
    for _ in range(random.randint(2, 6)):
        trace.round(("read", path, f"version {random.random()}"))
        trace.round(("edit", f"{path} {random.random()}", "ok"))


def _test_after_each_edit(trace: Trace, random: random.Random) -> None:
    for _ in range(random.randint(3, 8)):
        trace.round(("edit", f"a.py {random.random()}", "ok"))
        trace.round(("bash", "pytest -q", "1 failed"))


def _read_in_parallel(trace: Trace, random: random.Random) -> None:
    for _ in range(random.randint(1, 4)):
        trace.round(*(("read", f"lib/{random.random()}", "text") for _ in range(random.randint(2, 5))))


def _look_at_the_same_place_between_searches(trace: Trace, random: random.Random) -> None:
    for _ in range(random.randint(3, 7)):
        trace.round(("list", ".", "a.py b.py"))
        trace.round(("search", f"word {random.random()}", "nothing found"))


def _ask_twice(trace: Trace, random: random.Random) -> None:
    for _ in range(2):
        trace.round(("bash", "git status", "clean"), text="Let me check.")


def _same_call_in_every_turn(trace: Trace, random: random.Random) -> None:
    for _ in range(random.randint(3, 6)):
        trace.round(("bash", "git status", "clean"))
        trace.turn("And now?")


HABITS: tuple[Callable[[Trace, random.Random], None], ...] = (
    _read_several_files,
    _poll,
    _retry_after_errors,
    _read_again_after_edits,
    _test_after_each_edit,
    _read_in_parallel,
    _look_at_the_same_place_between_searches,
    _ask_twice,
    _same_call_in_every_turn,
)


@pytest.mark.parametrize("seed", range(100))
def test_a_healthy_trace_is_never_touched(seed: int) -> None:
    source = random.Random(seed)
    trace = Trace()
    for habit in source.choices(HABITS, k=source.randint(2, 7)):
        habit(trace, source)
        # Something new lies between two habits, as in a real trace.
        trace.round(("edit", f"note {source.random()}", "ok"))
        if source.random() < 0.2:
            trace.turn("Go on.")
    whole = trace.request
    for length in range(1, len(whole.messages) + 1):
        request = replace(whole, messages=whole.messages[:length])
        guarded = guard_request(request)
        assert guarded.request is request
        assert guarded.loops == ()
