"""ToolChoice: whether the model's next turn may, must or must not call tools, and which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.core.conversion import to_enum, to_texts
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError


class ChoiceMode(StrEnum):
    """AUTO: answer or call. NONE: answer. REQUIRED: call.

    Example:
        ToolChoice.allowed(["search", "fetch"], ChoiceMode.REQUIRED)
    """

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ChoicePolicy(StrEnum):
    """How AUTO is treated. REQUIRED_FIRST_HOP: a call is required until there is a result after the last user message.

    Example:
        ToolCallRequest(messages=messages, tools=tools, tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP)
    """

    AUTO = "auto"
    REQUIRED_FIRST_HOP = "required_first_hop"
    REQUIRED_ALWAYS = "required_always"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, and the names of the tools it applies to (None for all).

    Example:
        ToolChoice.auto()
        ToolChoice.one("get_weather")
        ToolChoice.allowed(["get_weather", "get_time"])
    """

    mode: ChoiceMode
    names: tuple[str, ...] | None = None

    if TYPE_CHECKING:
        # What the generated constructor accepts, which is more than the types of the fields.
        def __init__(self, mode: ChoiceMode | str, names: str | Iterable[str] | None = None) -> None: ...

    def __post_init__(self) -> None:
        if type(self.mode) is not ChoiceMode:
            object.__setattr__(self, "mode", to_enum(ChoiceMode, self.mode, "the mode of a tool_choice"))
        if self.names is not None and type(self.names) is not tuple:
            object.__setattr__(self, "names", to_texts(self.names, "names"))

    @staticmethod
    def auto() -> ToolChoice:
        return ToolChoice(ChoiceMode.AUTO)

    @staticmethod
    def none() -> ToolChoice:
        return ToolChoice(ChoiceMode.NONE)

    @staticmethod
    def required() -> ToolChoice:
        return ToolChoice(ChoiceMode.REQUIRED)

    @staticmethod
    def one(name: str) -> ToolChoice:
        """Require a call of this tool."""
        return ToolChoice(ChoiceMode.REQUIRED, (name,))

    @staticmethod
    def allowed(names: Iterable[str], mode: ChoiceMode | str = ChoiceMode.AUTO) -> ToolChoice:
        """Allow only these tools. With REQUIRED the model must call one of them."""
        return ToolChoice(mode, tuple(dict.fromkeys(to_texts(names, "names"))))

    def select_tools(self, tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Return the tools that may be called under this choice. An unknown name is an error, not an empty set."""
        available = tuple(tools)
        if self.mode is ChoiceMode.NONE:
            return ()
        if self.names is None:
            if self.mode is ChoiceMode.REQUIRED and not available:
                raise DefinitionError(
                    "tool_choice requires a call, but no tool is offered", hint="Pass tools, or use auto."
                )
            return available
        by_name = {tool.name: tool for tool in available}
        missing = [name for name in self.names if name not in by_name]
        if missing or not self.names:
            raise DefinitionError(
                f"tool_choice names unknown tools: {', '.join(missing)}" if missing else "tool_choice names no tools",
                hint=f"The request offers: {', '.join(by_name) or 'no tools'}.",
            )
        return tuple(by_name[name] for name in self.names)
