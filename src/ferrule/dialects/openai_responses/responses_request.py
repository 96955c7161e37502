"""ResponsesAsk: a client's body, read. The request to the model, and what that has no room for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import ToolResult
from ferrule.core.message import ChatMessage, Part
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.hosted_tools import HostedServer, HostedTool


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What a person said to an `mcp_approval_request`. `id` is that of the request."""

    id: str
    approve: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesAsk:
    """`request` is the conversation as the body tells it, instructions first; its tools are the caller's own functions.

    `approvals` are the answers that nothing has come of yet: what a client resends of earlier turns is not among them.
    `choice` and `text` are told back in the response as they came.
    """

    request: ToolCallRequest
    previous_response_id: str | None = None
    store: bool = True
    background: bool = False
    stream: bool = False
    approvals: tuple[ApprovalAnswer, ...] = ()
    hosted: tuple[HostedServer, ...] = ()
    instructions: str | None = None
    max_tool_calls: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    choice: str | dict[str, Any] = "auto"
    text: Mapping[str, Any] = field(default_factory=lambda: {"format": {"type": "text"}})

    @property
    def hosted_tools(self) -> dict[str, HostedTool]:
        """The tools of all declared servers, by the names that the model knows; of two labels the first counts."""
        found: dict[str, HostedTool] = {}
        for server in self.hosted:
            for tool in server.tools:
                name = tool.definition.name
                found.setdefault(name, replace(tool, waits=tool.waits or name in server.asked))
        return found

    @property
    def asked(self) -> frozenset[str]:
        """The tools for whose calls the caller wants to be asked for leave."""
        return frozenset(name for server in self.hosted for name in server.asked)

    def following(self, history: Iterable[ChatMessage], *, instructions: str | None = None) -> ToolCallRequest:
        """The request with an earlier conversation before it.

        `instructions` are those of the earlier response: they do not carry over. Results get the names of the calls
        that they answer, which may be in the history.
        """
        earlier = tuple(history)
        if instructions is not None and earlier[:1] == (ChatMessage.system(instructions),):
            earlier = earlier[1:]
        own = self.request.messages
        head, rest = (own[:1], own[1:]) if self.instructions is not None else ((), own)
        names = {call.id: call.name for message in earlier for call in message.tool_calls}
        named = tuple(replace(message, parts=tuple(_named(part, names) for part in message.parts)) for message in rest)
        return replace(self.request, messages=(*head, *earlier, *named))


def _named(part: Part, names: Mapping[str, str]) -> Part:
    if isinstance(part, ToolResult) and not part.name:
        return replace(part, name=names.get(part.tool_call_id, ""))
    return part
