"""What a request becomes for an API that cannot say all of it: said in another way, or refused before it is sent.

Must not know any provider: what an API can say is in its `ChatApi`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.allowed_tools import narrowed
from ferrule.engines.chat.api import ChatApi
from ferrule.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Said:
    """A request that the API can say whole. `notes` are for receipts; `unsaid` are the fields that were left out."""

    request: ToolCallRequest
    notes: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()


def said(request: ToolCallRequest, api: ChatApi) -> Said:
    """The same demand in words that the API has; `UnsupportedError` where it has none."""
    plain = replace(request, tool_choice=request.choice, tool_choice_policy=ChoicePolicy.AUTO)
    plain.tool_choice.offered(plain.tools)
    unsaid = tuple(name for name in api.lacks if getattr(plain, name) not in (None, ()))
    # Every such field but `stop` is None where it is not given.
    plain = replace(plain, **{name: () if name == "stop" else None for name in unsaid})
    spoken, notes = _spoken(plain, api)
    if spoken.tools and not spoken.parallel_tool_calls and not api.parallel:
        notes = (*notes, f"{api.name} cannot be told to make one call only, so calls after the first are refused")
    return Said(spoken, notes, unsaid)


def demanding(request: ToolCallRequest, tool: ToolDefinition, api: ChatApi) -> ToolCallRequest:
    """The request with one call of this tool demanded, as strongly as the API can say it."""
    alone = replace(request, tools=(tool,), tool_choice=ToolChoice.one(tool.name), tool_choice_policy=ChoicePolicy.AUTO)
    try:
        return said(alone, api).request
    except UnsupportedError:
        return said(replace(alone, tool_choice=ToolChoice.auto()), api).request


def word_of(choice: ToolChoice) -> str:
    """The kind of choice, as `honours` lists it."""
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    return "one" if choice.mode is ChoiceMode.REQUIRED and len(choice.names) == 1 else "allowed"


def _spoken(request: ToolCallRequest, api: ChatApi) -> tuple[ToolCallRequest, tuple[str, ...]]:
    word = word_of(request.tool_choice)
    if word == "none" and not request.tools:
        # Nothing to forbid, and providers refuse a choice without tools.
        return replace(request, tool_choice=ToolChoice.auto()), ()
    if word in api.honours or word == "auto":
        return request, ()
    if word in api.instead:
        return request, (api.instead[word],)
    if word not in _WAYS:
        raise UnsupportedError(
            f"{api.name} cannot be held to tool_choice {word!r}",
            hint="Ask with auto, or use an engine that generates under a grammar, such as llama, vllm or sglang.",
        )
    way = _WAYS[word]
    spoken, notes = _spoken(way.change(request), api)
    return spoken, (way.note, *notes)


def _without_tools(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tools=(), tool_choice=ToolChoice.auto())


def _only_that_one(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tools=request.tool_choice.offered(request.tools), tool_choice=ToolChoice.required())


@dataclass(frozen=True, slots=True)
class _Way:
    change: Callable[[ToolCallRequest], ToolCallRequest]
    note: str


# Each leads to a choice that is easier to say, so that this ends; what is not here has no other way.
_WAYS = {
    "none": _Way(_without_tools, "no tools were offered, because the API has no word for 'none'"),
    "one": _Way(_only_that_one, "the one tool was demanded by offering no other"),
    "allowed": _Way(narrowed, "only the allowed tools were offered, because the API has no word for a subset"),
}
