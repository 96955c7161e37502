"""ResumeRecord: what a process needs to continue a stored response, besides its conversation and its events.

It is stored as JSON. Independent of the ledger and the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.text_grammar import TextGrammar
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch
from ferrule.dialects.openai_responses.client_tools import (
    ClientTool,
    client_tools_as_json,
    client_tools_from_json,
)
from ferrule.errors import DefinitionError
from ferrule.server.answer.plan import ToolOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRecord:
    """`request` has no messages: they are in the conversation, without the instructions, which do not carry over.

    `tool_names` are the gateway's tools to offer, None for all of them. `labels` are the servers that the client
    declared.
    """

    request: ToolCallRequest
    tool_owner: ToolOwner
    tool_names: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    labels_to_list: tuple[str, ...] = ()
    """The labels whose tools the response lists first, because the client has not received their list before."""
    approval_required: frozenset[str] = frozenset()
    """The tools whose calls the client wants to approve."""
    max_tool_calls: int | None = None
    instructions: str | None = None
    approvals: Mapping[str, str] = field(default_factory=dict[str, str])
    """The approval requests that this response answers, by the id of the waiting call."""
    input: tuple[dict[str, Any], ...] = ()
    """The input items of the client, as they are listed later."""
    client_tools: Mapping[str, ClientTool] = field(default_factory=dict[str, ClientTool])
    """What the caller knows its tools as, by the model's names, unless they are plain functions."""
    loaded_tools: tuple[str, ...] = ()
    """The tools of the request that came with input items. They stay when the next response continues this one."""
    are_handed_out: bool = False
    """Whether the client has the calls that it runs from an earlier response, whose other calls waited for approval."""
    scopes: frozenset[str] | None = frozenset()
    """What the principal might use when the request came; None is everything. Only of callers with tokens it decides:
    nobody has their token later."""
    epoch: int = 0
    """The lease epoch of the first owner. The difference to the current one is the number of takeovers."""

    def as_json(self) -> dict[str, Any]:
        scalars = {name: getattr(self, name) for name in ("max_tool_calls", "instructions", "epoch")}
        # The keys of earlier versions, so that a response survives an upgrade.
        return {
            **scalars,
            "request": _request_as_json(self.request),
            "whose": self.tool_owner.value,
            "names": None if self.tool_names is None else list(self.tool_names),
            "labels": list(self.labels),
            "lists": list(self.labels_to_list),
            "asked": sorted(self.approval_required),
            "leave": dict(self.approvals),
            "input": list(self.input),
            "client_tools": client_tools_as_json(self.client_tools),
            "loaded_tools": list(self.loaded_tools),
            "are_handed_out": self.are_handed_out,
            "scopes": None if self.scopes is None else sorted(self.scopes),
        }

    @property
    def late_tools(self) -> frozenset[str]:
        """The client's tools, if the gateway runs the other calls: their calls are shown when the response ends."""
        is_mixed = self.tool_owner is ToolOwner.GATEWAY
        return frozenset(tool.name for tool in self.request.tools) if is_mixed else frozenset()

    @property
    def deferred_tools(self) -> frozenset[str]:
        """The tools that are for a search to find, if the client declared one."""
        return self.request.tool_search.deferred if self.request.tool_search else frozenset()

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ResumeRecord:
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError) as damage:
            raise DefinitionError(
                f"invalid resume record: {damage!r}", hint="Send the request again: another version wrote the record."
            ) from damage


def _read(data: Mapping[str, Any]) -> ResumeRecord:
    return ResumeRecord(
        request=_request_from_json(data["request"]),
        tool_owner=ToolOwner(data["whose"]),
        tool_names=None if data["names"] is None else tuple(data["names"]),
        labels=tuple(data["labels"]),
        labels_to_list=tuple(data["lists"]),
        approval_required=frozenset(data["asked"]),
        max_tool_calls=data["max_tool_calls"],
        instructions=data["instructions"],
        approvals=data["leave"],
        input=tuple(data["input"]),
        client_tools=client_tools_from_json(data.get("client_tools", {})),
        loaded_tools=tuple(data.get("loaded_tools", ())),
        are_handed_out=data.get("are_handed_out", False),
        scopes=None if (scopes := data.get("scopes", ())) is None else frozenset(scopes),
        epoch=data["epoch"],
    )


_TOOL_FIELDS = tuple(field.name for field in fields(ToolDefinition) if field.compare)


def _request_as_json(request: ToolCallRequest) -> dict[str, Any]:
    data = asdict(replace(request, messages=(), tools=(), client_body=None, tool_search=None))
    data["tool_search"] = None if request.tool_search is None else request.tool_search.as_json()
    del data["messages"], data["client_body"]
    data["described_tools"] = sorted(request.described_tools)
    return {**data, "tools": [_tool_as_json(tool) for tool in request.tools]}


def _tool_as_json(tool: ToolDefinition) -> dict[str, Any]:
    grammar = tool.input_grammar
    return {
        **{name: getattr(tool, name) for name in _TOOL_FIELDS},
        "input_grammar": None if grammar is None else grammar.as_json(),
    }


def _tool_from_json(data: Mapping[str, Any]) -> ToolDefinition:
    # A record of an earlier version has neither field.
    grammar = data.get("input_grammar")
    values: dict[str, Any] = {**data, "input_grammar": None if grammar is None else TextGrammar.from_json(grammar)}
    return ToolDefinition(**values)


def _request_from_json(data: Mapping[str, Any]) -> ToolCallRequest:
    choice, search = data["tool_choice"], data.get("tool_search")
    names = None if choice["names"] is None else tuple(choice["names"])
    values: dict[str, Any] = {
        **data,
        "tools": tuple(map(_tool_from_json, data["tools"])),
        "tool_choice": ToolChoice(ChoiceMode(choice["mode"]), names),
        "tool_choice_policy": ChoicePolicy(data["tool_choice_policy"]),
        "stop": tuple(data["stop"]),
        "ignored": tuple(data.get("ignored", ())),
        "tool_search": None if search is None else DeclaredSearch.from_json(search),
        "described_tools": frozenset(data.get("described_tools", ())),
    }
    return ToolCallRequest(messages=(), **values)
