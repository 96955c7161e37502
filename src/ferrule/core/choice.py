"""ToolChoice: what the caller allows or demands of the model's next turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError


class ChoiceMode(StrEnum):
    """AUTO: reply or call. NONE: reply. REQUIRED: call."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ChoicePolicy(StrEnum):
    """What becomes of AUTO. REQUIRED_FIRST_HOP: a call until a result has come since the user spoke, then AUTO."""

    AUTO = "auto"
    REQUIRED_FIRST_HOP = "required_first_hop"
    REQUIRED_ALWAYS = "required_always"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, and which of the offered tools it is about (`names` is None for all of them)."""

    mode: ChoiceMode
    names: tuple[str, ...] | None = None

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
        """This tool and no other must be called."""
        return ToolChoice(ChoiceMode.REQUIRED, (name,))

    @staticmethod
    def allowed(names: Iterable[str], mode: ChoiceMode = ChoiceMode.AUTO) -> ToolChoice:
        """Only these tools may be called; with REQUIRED one of them must be."""
        return ToolChoice(mode, tuple(dict.fromkeys(names)))

    def offered(self, tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """The tools that may be called under this choice; a name that was not offered is an error, not an empty set."""
        offered = tuple(tools)
        if self.mode is ChoiceMode.NONE:
            return ()
        if self.names is None:
            if self.mode is ChoiceMode.REQUIRED and not offered:
                raise DefinitionError("a tool call is required but no tool is offered", hint="Pass tools, or use auto.")
            return offered
        known = {tool.name: tool for tool in offered}
        missing = [name for name in self.names if name not in known]
        if missing or not self.names:
            raise DefinitionError(
                f"the choice names tools that are not offered: {', '.join(missing) or '(none at all)'}",
                hint=f"Offered: {', '.join(known) or 'nothing'}.",
            )
        return tuple(known[name] for name in self.names)
