"""ToolSettings: the specification's settings for tools, and the executor that they configure. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from ferrule.core.boolean_text import parse_boolean
from ferrule.errors import DefinitionError
from ferrule.run.executor import ToolExecutor
from ferrule.sources.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """Settings of the tool executor. With an empty `tools_default_set` all tools of the source are offered."""

    tools_enabled: bool = True
    """Whether the gateway offers its own tools."""
    tools_max_iterations: int = 6
    """How many rounds of tool calls one answer may take."""
    tools_per_tool_timeout_seconds: float = 30.0
    """How long one call may take, in seconds."""
    tools_max_parallel: int = 4
    """How many calls of one round run at the same time."""
    tools_default_set: tuple[str, ...] = ()
    """The names of the tools to offer; empty offers all."""
    tools_require_confirmation_for_side_effects: bool = True
    """Whether each call of a tool with side effects needs a person's approval."""

    def __post_init__(self) -> None:
        for name in ("tools_max_iterations", "tools_per_tool_timeout_seconds", "tools_max_parallel"):
            if getattr(self, name) <= 0:
                raise DefinitionError(
                    f"{name} must be more than 0", hint="Set tools_enabled to false to turn tools off."
                )

    @staticmethod
    def read(values: Mapping[str, Any]) -> ToolSettings:
        """Read settings from a configuration or from environment variables.

        Keys may be in upper or lower case. Other keys are ignored.
        """
        kinds = get_type_hints(ToolSettings)
        known_values = {key.lower(): value for key, value in values.items() if key.lower() in kinds}
        return ToolSettings(**{name: _value(name, value, kinds[name]) for name, value in known_values.items()})

    def executor(self, source: Source) -> ToolExecutor:
        return ToolExecutor(
            source,
            tools=() if not self.tools_enabled else self.tools_default_set or None,
            max_iterations=self.tools_max_iterations,
            per_tool_timeout_seconds=self.tools_per_tool_timeout_seconds,
            max_concurrent=self.tools_max_parallel,
            confirms_side_effects=self.tools_require_confirmation_for_side_effects,
        )


def _value(name: str, value: Any, kind: Any) -> Any:
    try:
        if kind is bool:
            return value if isinstance(value, bool) else parse_boolean(str(value))
        if kind in (int, float):
            return kind(value)
        return tuple(filter(None, value.split(","))) if isinstance(value, str) else tuple(map(str, value))
    except (TypeError, ValueError):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(
            kind, "names, joined by commas"
        )
        raise DefinitionError(f"{name} cannot be {value!r:.60}", hint=f"Use {expected}.") from None
