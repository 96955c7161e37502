"""Event: one step of a streamed reply. A reply is the fold of its events and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from ferrule.core.call import Receipt, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the visible text.

    Example:
        async for event in engine.stream(request):
            if isinstance(event, TextDelta):
                print(event.text, end="")
    """

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's reasoning. A `signature`, or `encrypted` reasoning, ends the part; see `Reasoning`.

    Example:
        ReasoningDelta("The user wants the weather, so ")
    """

    text: str
    signature: str = ""
    encrypted: str = ""


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins: its name and id are known. `index` counts the calls of one reply from 0.

    Example:
        CallStart(0, "call_1", "get_weather")
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of a call's arguments. The deltas of a call, joined, are always a prefix of its final JSON text.

    Example:
        ArgumentsDelta(0, '{"city": "Ro')
    """

    index: int
    json: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call ends. If it is not complete it must never be run; a diagnostic says why.

    Example:
        if isinstance(event, CallEnd) and event.receipt is not None:
            print(event.receipt)
    """

    index: int
    complete: bool = True
    receipt: Receipt | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something unexpected in the model's output. `text` holds the characters that are in no other event.

    Example:
        for diagnostic in reply.diagnostics:
            print(diagnostic.code, diagnostic.message)
    """

    code: str
    message: str
    text: str = ""
    index: int | None = None


class FinishReason(StrEnum):
    """Why a reply ended. LENGTH: the token limit was reached.

    Example:
        if reply.finish_reason is FinishReason.LENGTH:
            print("the reply was cut off")
    """

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class Usage:
    """How many tokens a reply took.

    Example:
        Usage(prompt_tokens=120, completion_tokens=30)
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """How many of the prompt's tokens came from the engine's cache and were not read again; 0 if it does not say."""


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add two usages. If only one is known, return that one."""
    if one is None or other is None:
        return one or other
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.cached_tokens + other.cached_tokens,
    )


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply is over. LENGTH has priority over TOOL_CALLS, so that a cut-off reply never looks finished.

    Example:
        Finish(FinishReason.STOP, Usage(120, 30))
    """

    reason: FinishReason
    usage: Usage | None = None
    stop: str = ""
    """The stop string of the request that ended the reply; empty if none did, or if the engine does not say."""
    loaded: frozenset[str] | None = field(default=None, compare=False, repr=False)
    """The names of the tools that the model could call, if it could not call all of the request: see `ToolSearch`."""


@dataclass(frozen=True, slots=True)
class RuleShown:
    """The prompt and the grammar of a reply. It is the first event, if the request has `shows_wire`.

    An engine that does not enforce one of Ferrule's rules does not emit it.

    Example:
        async for event in engine.stream(replace(request, shows_wire=True)):
            if isinstance(event, RuleShown):
                print(event.grammar)
    """

    format: str
    target: str
    grammar: str
    prompt: str
    triggers: tuple[str, ...] = ()
    """If there are any, the grammar applies from the first of them on, and the text before it is free."""


@dataclass(frozen=True, slots=True)
class WireText:
    """More of the raw model output, before it is parsed, if the request has `shows_wire`.

    It repeats what the parsed events say, and does not change the reply. With `is_forced` the rule left no choice, so
    the text was appended without generating it.

    Example:
        raw = "".join(event.text for event in events if isinstance(event, WireText))
    """

    text: str
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """The model searched among tools that are deferred. The search is answered, and the reply continues.

    The call is not one of the reply's: nobody has to run it.

    Example:
        if isinstance(event, ToolSearch):
            print(event.call.arguments["query"], event.found)
    """

    call: ToolCall
    result: ToolResult
    """What the model reads: which tools it may call now, and the definitions of those that it had not seen."""
    found: tuple[str, ...] = ()
    """The names of the tools that were found, the best first."""
    declared: str = ""
    """The client's name for the search, if the client declared it: then the answer shows it in the way of its API."""
    error: str = ""
    """Why nothing was searched, as a code such as "invalid_tool_input"."""


DEBUG_EVENTS: frozenset[type] = frozenset({RuleShown, WireText})
"""The events for debugging a model. Code that acts on a reply ignores them."""

Event: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | CallStart
    | ArgumentsDelta
    | CallEnd
    | Diagnostic
    | Finish
    | RuleShown
    | WireText
    | ToolSearch
)
