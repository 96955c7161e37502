"""Plan: everything that a process needs to go on with a kept response, besides its conversation and its events.

Knows neither the ledger nor the API: it is JSON, and comes back from it the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.server.answer.turn import ToolOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`request` has no messages: those are in the conversation, without the instructions, which do not carry over.

    `names` are the gateway's tools to offer, None for all of them, and `labels` the servers that the client declared.
    """

    request: ToolCallRequest
    whose: ToolOwner
    names: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """Those of them whose tools are told first: the client has not been told them before."""
    asked: frozenset[str] = frozenset()
    """The tools for whose calls the client wants to be asked for leave."""
    max_tool_calls: int | None = None
    instructions: str | None = None
    leave: Mapping[str, str] = field(default_factory=dict[str, str])
    """The requests for leave that this response answers, by the id of the call that waited."""
    input: tuple[dict[str, Any], ...] = ()
    """The items that the client sent, as they are listed."""
    epoch: int = 0
    """Of the first owner: how many came after him says how often it was taken up."""

    def as_json(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("max_tool_calls", "instructions", "epoch")}
        return {
            **told,
            "request": _request_as_json(self.request),
            "whose": self.whose.value,
            "names": None if self.names is None else list(self.names),
            "labels": list(self.labels),
            "lists": list(self.lists),
            "asked": sorted(self.asked),
            "leave": dict(self.leave),
            "input": list(self.input),
        }

    @staticmethod
    def from_json(held: Mapping[str, Any]) -> Plan:
        try:
            return _read(held)
        except (KeyError, TypeError, ValueError) as damage:
            raise DefinitionError(
                f"this is no plan of a response: {damage!r}", hint="Ask again: it was written by another version."
            ) from damage


def _read(held: Mapping[str, Any]) -> Plan:
    return Plan(
        request=_request_from_json(held["request"]),
        whose=ToolOwner(held["whose"]),
        names=None if held["names"] is None else tuple(held["names"]),
        labels=tuple(held["labels"]),
        lists=tuple(held["lists"]),
        asked=frozenset(held["asked"]),
        max_tool_calls=held["max_tool_calls"],
        instructions=held["instructions"],
        leave=held["leave"],
        input=tuple(held["input"]),
        epoch=held["epoch"],
    )


def _request_as_json(request: ToolCallRequest) -> dict[str, Any]:
    told = asdict(replace(request, messages=()))
    del told["messages"]
    return told


def _request_from_json(held: Mapping[str, Any]) -> ToolCallRequest:
    choice = held["tool_choice"]
    names = None if choice["names"] is None else tuple(choice["names"])
    fields: dict[str, Any] = {
        **held,
        "tools": tuple(ToolDefinition(**tool) for tool in held["tools"]),
        "tool_choice": ToolChoice(ChoiceMode(choice["mode"]), names),
        "tool_choice_policy": ChoicePolicy(held["tool_choice_policy"]),
        "stop": tuple(held["stop"]),
    }
    return ToolCallRequest(messages=(), **fields)
