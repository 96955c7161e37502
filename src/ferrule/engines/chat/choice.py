"""Tool choice for chat APIs: adapts a request to an API that cannot express all of it, or refuses it before it is sent.

Must not know any provider: what an API can express is in its `ChatApi`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.engines.chat.api import ChatApi
from ferrule.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class AdaptedRequest:
    """A request that the API can express. `notes` are for receipts; `dropped_fields` were left out."""

    request: ToolCallRequest
    notes: tuple[str, ...] = ()
    dropped_fields: tuple[str, ...] = ()


def adapt_request(request: ToolCallRequest, api: ChatApi) -> AdaptedRequest:
    """Express the request in the API's terms; `UnsupportedError` if that is not possible."""
    resolved = replace(request, tool_choice=request.choice, tool_choice_policy=ChoicePolicy.AUTO)
    resolved.tool_choice.select_tools(resolved.tools)
    dropped = tuple(name for name in api.unsupported_fields if getattr(resolved, name) not in (None, ()))
    # All of these fields except `stop` are None if not set.
    resolved = replace(resolved, **{name: () if name == "stop" else None for name in dropped})
    adapted, notes = _adapt_choice(resolved, api)
    if adapted.tools and not adapted.parallel_tool_calls and not api.parallel:
        notes = (*notes, f"{api.name} cannot be limited to one call, so calls after the first are refused")
    return AdaptedRequest(adapted, notes, dropped)


def require_call(request: ToolCallRequest, tool: ToolDefinition, api: ChatApi) -> ToolCallRequest:
    """Return the request with a call of this tool required, as strongly as the API can express it."""
    narrowed_request = replace(
        request, tools=(tool,), tool_choice=ToolChoice.one(tool.name), tool_choice_policy=ChoicePolicy.AUTO
    )
    try:
        return adapt_request(narrowed_request, api).request
    except UnsupportedError:
        return adapt_request(replace(narrowed_request, tool_choice=ToolChoice.auto()), api).request


def choice_kind(choice: ToolChoice) -> str:
    """Return the kind of choice, as in `Traits.honours`."""
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    return "one" if choice.mode is ChoiceMode.REQUIRED and len(choice.names) == 1 else "allowed"


def _adapt_choice(request: ToolCallRequest, api: ChatApi) -> tuple[ToolCallRequest, tuple[str, ...]]:
    kind = choice_kind(request.tool_choice)
    if kind == "none" and not request.tools:
        # There is nothing to forbid, and providers refuse a choice without tools.
        return replace(request, tool_choice=ToolChoice.auto()), ()
    if kind in api.honours or kind == "auto":
        return request, ()
    if kind in api.workaround_notes:
        return request, (api.workaround_notes[kind],)
    if kind not in _WORKAROUNDS:
        raise UnsupportedError(
            f"{api.name} does not honour tool_choice {kind!r}",
            hint="Use tool_choice auto, or an engine that generates under a grammar, such as llama, vllm or sglang.",
        )
    workaround = _WORKAROUNDS[kind]
    adapted, notes = _adapt_choice(workaround.change(request), api)
    return adapted, (workaround.note, *notes)


def _without_tools(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tools=(), tool_choice=ToolChoice.auto())


def _only_chosen_tool(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tools=request.tool_choice.select_tools(request.tools), tool_choice=ToolChoice.required())


@dataclass(frozen=True, slots=True)
class _Workaround:
    change: Callable[[ToolCallRequest], ToolCallRequest]
    note: str


# Each workaround leads to a simpler choice, so the recursion ends. Choices that are not here have no workaround.
_WORKAROUNDS = {
    "none": _Workaround(_without_tools, "no tools were offered, because the API has no tool_choice 'none'"),
    "one": _Workaround(_only_chosen_tool, "the tool was required by offering no other"),
    "allowed": _Workaround(
        narrow_tools, "only the allowed tools were offered, because the API has no choice of a subset"
    ),
}
