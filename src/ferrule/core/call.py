"""ToolCall and ToolResult: what a model asks for, and what came of it.

Arguments are kept as the JSON *text*. Parsing and printing again would change what the model wrote (1.0 to 1, a large
integer to a float, one spelling of a string to another), and approvals and receipts are about exact bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.core.receipt import Receipt


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool's name and its arguments as JSON text."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `complete` is False when the model was cut off or wrote something unreadable; it is never run then.

    `receipt` says how an engine guaranteed it; two calls are equal whatever their receipts say.
    """

    id: str
    function: FunctionCall
    type: str = "function"
    complete: bool = True
    receipt: Receipt | None = field(default=None, compare=False)

    @staticmethod
    def of(name: str, arguments: Mapping[str, Any] | str = "{}", id: str = "") -> ToolCall:
        """A call from a name and arguments as a mapping or as JSON text."""
        text = arguments if isinstance(arguments, str) else dumps(arguments)
        return ToolCall(id, FunctionCall(name, text))

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as values. `ValueError` when they are not a JSON object, as in a call that is not complete."""
        value = loads(self.function.arguments)
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name!r} are not an object")
        return cast("dict[str, Any]", value)

    def as_openai(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "function": {"name": self.name, "arguments": self.function.arguments},
        }


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back: text or a JSON value. `is_error` tells the model that it did not work."""

    tool_call_id: str
    name: str
    content: Any
    is_error: bool = False

    @property
    def text(self) -> str:
        """The content as the model reads it."""
        return self.content if isinstance(self.content, str) else dumps(self.content)
