"""RequestOptions: the keyword arguments of `ask`, `run` and `stream`, and the request that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.conversion import MessagesInput, ToolsInput
from ferrule.core.reply import Reply
from ferrule.core.request import ChoicePolicy, GenerateParams, ToolCallRequest, ToolChoice
from ferrule.schema.response_type import ResponseType


class RequestOptions(GenerateParams, total=False):
    """The options of one request, besides its messages and tools; see `ToolCallRequest`."""

    tool_choice: ToolChoice | str
    tool_choice_policy: ChoicePolicy | str
    parallel_tool_calls: bool
    response_schema: Mapping[str, Any] | None
    model: str | None
    engine_options: Mapping[str, Any]
    shows_wire: bool


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request, and the type that its answer must fit."""

    request: ToolCallRequest
    response_type: ResponseType | None

    @staticmethod
    def of(
        messages: MessagesInput | ToolCallRequest,
        tools: ToolsInput | None,
        response_type: Any,
        options: RequestOptions,
    ) -> PreparedRequest:
        """Make it from the arguments of `ask`. Options beside a request replace its fields."""
        fields = cast("dict[str, Any]", {**options} if tools is None else {**options, "tools": tools})
        kind = None if response_type is None else _response_type(response_type)
        if kind is not None:
            fields["response_schema"] = kind.schema
        if not isinstance(messages, ToolCallRequest):
            request = ToolCallRequest(messages=messages, **fields)
        else:
            request = replace(messages, **fields) if fields else messages
        if kind is None and request.response_schema is not None:
            kind = ResponseType(request.response_schema)
        return PreparedRequest(request, kind)

    def with_value(self, reply: Reply) -> Reply:
        """Return the reply with its `value`."""
        return reply if self.response_type is None else replace(reply, decode=self.response_type.value_of)


def _response_type(value: Any) -> ResponseType:
    if isinstance(value, Mapping):
        return ResponseType(dict(cast("Mapping[str, Any]", value)))
    return ResponseType.of(value)
