"""Find loops in a history of calls that somebody else runs: the same call with the same result, again and again.

Two calls are the same if their tool, their arguments as canonical JSON and their results with media are the same. Real
loops alternate between two or three calls, so other calls between do not hide a repetition. But a call whose arguments
and result occur only once is something new: tests that fail alike after each of several edits are no loop. So what is
counted are the occurrences after the last pair that occurred only once. A new turn of the user starts over.

    A A A           A is counted 3 times
    A B A B A       A is counted 3 times: B is not new any more
    A X A Y A       A is counted once: X and Y are new
    (A A A) A       A is counted twice: the calls of one reply were written before any result was read

The third result, and each one after it, gets a hint at its end. Whether a result gets one depends only on what came
before it, so the next request renders the same text again, and an engine's prefix cache stays valid. After the fourth,
the call is in `excluded_calls`: an engine does not make it again while the history ends in the loop.

Must not know engines, and not who runs the calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall, ToolResult
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role
from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, canonical_call
from ferrule.core.tool import is_tool_name

HINT_COUNT = 3
"""The result of this occurrence is the first with a hint."""
EXCLUDED_COUNT = 5
"""This occurrence is not written any more."""

_MAX_NAMED = 16
"""How many loops the text of a header names."""
_Pair = tuple[tuple[str, str], str, tuple[Media, ...]]


@dataclass(frozen=True, slots=True)
class CallLoop:
    """A call that is being repeated: how often it was made, and what was done about it."""

    call: FunctionCall
    count: int
    action: Literal["hint", "excluded"]


@dataclass(frozen=True, slots=True)
class GuardedRequest:
    """A request with hints and excluded calls, and the loops that the history ends in."""

    request: ToolCallRequest
    loops: tuple[CallLoop, ...] = ()


def guard_request(request: ToolCallRequest) -> GuardedRequest:
    """Return the request with a hint after each repeated result, and with the calls excluded that are in a loop.

    A request in whose history nothing is repeated is returned as it is.

    Example:
        guarded = guard_request(request)
        print([loop.call.name for loop in guarded.loops])
    """
    history = _History()
    messages = [history.add(message) for message in request.messages]
    loops = history.loops()
    if not loops and not history.has_hints:
        return GuardedRequest(request)
    excluded = tuple(loop.call for loop in loops if loop.action == "excluded")
    guarded = replace(request, messages=tuple(messages))
    if excluded:
        choice = request.choice
        # Nothing else may be left to call, so a call is no longer demanded.
        mode = ChoiceMode.AUTO if choice.mode is ChoiceMode.REQUIRED else choice.mode
        guarded = replace(
            guarded,
            tool_choice=replace(choice, mode=mode),
            tool_choice_policy=ChoicePolicy.AUTO,
            excluded_calls=(*request.excluded_calls, *excluded),
        )
    return GuardedRequest(guarded, loops)


def loop_text(loops: Sequence[CallLoop]) -> str:
    """Return what was done, as `tool=action` for each loop: the value of a header.

    Names in a history are the client's, so one that no tool can have is "other".
    """
    texts = [f"{loop.call.name if is_tool_name(loop.call.name) else 'other'}={loop.action}" for loop in loops]
    if len(texts) > _MAX_NAMED:
        texts[_MAX_NAMED - 1 :] = [f"{len(texts) - _MAX_NAMED + 1}-more"]
    return ", ".join(texts)


@dataclass(slots=True)
class _History:
    """The pairs of calls and results since the user's last turn, in order."""

    has_hints: bool = False
    _calls: dict[str, tuple[ToolCall, int]] = field(default_factory=dict[str, tuple[ToolCall, int]])
    """Each call, and the number of the reply that made it."""
    _replies: int = 0
    _pairs: list[_Pair] = field(default_factory=list[_Pair])
    _places: dict[_Pair, list[int]] = field(default_factory=dict[_Pair, list[int]])
    _new: list[int] = field(default_factory=list[int])
    """Where a pair occurred that was new then, in order. Pairs that have occurred again since are removed lazily."""
    _last_reply: dict[_Pair, int] = field(default_factory=dict[_Pair, int])
    """The number of the reply in which a pair occurred last."""
    _is_after_results: bool = False

    def add(self, message: ChatMessage) -> ChatMessage:
        """Add a message, and return it with its hints."""
        if message.tool_calls:
            self._replies += 1
            for call in message.tool_calls:
                if call.type == TOOL_SEARCH:
                    # The gateway answers it, and limits the searches of an answer.
                    self._calls.pop(call.id, None)
                else:
                    self._calls[call.id] = (call, self._replies)
        if message.results:
            self._is_after_results = True
            parts = tuple(self._add_result(part) if isinstance(part, ToolResult) else part for part in message.parts)
            is_changed = any(new is not old for new, old in zip(parts, message.parts, strict=True))
            return replace(message, parts=parts) if is_changed else message
        # Clients put reminders and files beside results, as text of the user: the model's turn is not over then.
        if message.role is Role.USER and not self._is_after_results:
            self._pairs, self._places, self._new = [], {}, []
        self._is_after_results = self._is_after_results and message.role is Role.USER
        return message

    def loops(self) -> tuple[CallLoop, ...]:
        """The loops that the history ends in."""
        counts = {pair: self._count(places) for pair, places in self._places.items()}
        return tuple(
            CallLoop(FunctionCall(*pair[0]), count, "excluded" if count >= EXCLUDED_COUNT - 1 else "hint")
            for pair, count in counts.items()
            if count >= HINT_COUNT
        )

    def _add_result(self, result: ToolResult) -> ToolResult:
        made = self._calls.get(result.tool_call_id)
        if made is None:
            return result
        call, reply = made
        pair = (canonical_call(call.function), f"{result.is_error}:{result.text}", result.media)
        if self._last_reply.get(pair) == reply:
            return result
        self._last_reply[pair] = reply
        places = self._places.setdefault(pair, [])
        if not places:
            self._new.append(len(self._pairs))
        places.append(len(self._pairs))
        self._pairs.append(pair)
        count = self._count(places)
        if count < HINT_COUNT:
            return result
        self.has_hints = True
        text = f"{result.text}\n\n{_hint(count)}"
        return ToolResult(result.tool_call_id, result.name, text, result.is_error, media=result.media)

    def _count(self, places: list[int]) -> int:
        while self._new and len(self._places[self._pairs[self._new[-1]]]) > 1:
            self._new.pop()
        return len(places) - bisect_right(places, self._new[-1] if self._new else -1)


def _hint(count: int) -> str:
    return (
        f"[Note: this call was made {count} times with the same arguments and returned the same result each time. "
        "Do not repeat it: use another tool or other arguments, or answer with what you know.]"
    )
