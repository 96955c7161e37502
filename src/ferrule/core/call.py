"""ToolCall and ToolResult: a call that a model makes, and its result.

Arguments are stored as JSON *text*. Parsing and printing it again would change what the model wrote (1.0 to 1, a large
integer to a float, one escape of a character to another), and approvals and receipts are about exact bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.core.receipt import Receipt


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool's name and its arguments as JSON text.

    Example:
        FunctionCall("get_weather", '{"city": "Rome"}')
    """

    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call.

    `complete` is False if the model was cut off or wrote something unreadable; such a call is never run. `receipt` says
    how the engine guaranteed the call; it does not count when calls are compared.

    Example:
        call = ToolCall.of("get_weather", {"city": "Rome"}, id="call_1")
        assert call.arguments == {"city": "Rome"}
        assert call.function.arguments == '{"city": "Rome"}'
    """

    id: str
    function: FunctionCall
    type: str = "function"
    complete: bool = True
    receipt: Receipt | None = field(default=None, compare=False)

    @staticmethod
    def of(name: str, arguments: Mapping[str, Any] | str = "{}", id: str = "") -> ToolCall:
        """Create a call from a name and arguments, which are a mapping or JSON text."""
        text = arguments if isinstance(arguments, str) else dumps(arguments)
        return ToolCall(id, FunctionCall(name, text))

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as values. Raises `ValueError` if they are not a JSON object, as in an incomplete call."""
        value = loads(self.function.arguments)
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name!r} are not a JSON object")
        return cast("dict[str, Any]", value)

    def as_openai(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "function": {"name": self.name, "arguments": self.function.arguments},
        }


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: text or a JSON value. With `is_error` the model learns that the call failed.

    Example:
        ToolResult(call.id, call.name, {"temperature": 21})
        ToolResult(call.id, call.name, "the service is down", is_error=True)
    """

    tool_call_id: str
    name: str
    content: Any
    is_error: bool = False

    @property
    def text(self) -> str:
        """The content as the model reads it."""
        return self.content if isinstance(self.content, str) else dumps(self.content)
