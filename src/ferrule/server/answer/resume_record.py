"""ResumeRecord: what a process needs to continue a stored response, besides its conversation and its events.

It is stored as JSON. Independent of the ledger and the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
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
        }

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
        epoch=data["epoch"],
    )


_TOOL_FIELDS = tuple(field.name for field in fields(ToolDefinition) if field.compare)


def _request_as_json(request: ToolCallRequest) -> dict[str, Any]:
    data = asdict(replace(request, messages=(), tools=()))
    del data["messages"]
    return {**data, "tools": [{name: getattr(tool, name) for name in _TOOL_FIELDS} for tool in request.tools]}


def _request_from_json(data: Mapping[str, Any]) -> ToolCallRequest:
    choice = data["tool_choice"]
    names = None if choice["names"] is None else tuple(choice["names"])
    values: dict[str, Any] = {
        **data,
        "tools": tuple(ToolDefinition(**tool) for tool in data["tools"]),
        "tool_choice": ToolChoice(ChoiceMode(choice["mode"]), names),
        "tool_choice_policy": ChoicePolicy(data["tool_choice_policy"]),
        "stop": tuple(data["stop"]),
    }
    return ToolCallRequest(messages=(), **values)
