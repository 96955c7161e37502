"""ToolSettings: the specification's settings for tools, and the executor that they make. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from ferrule.errors import DefinitionError
from ferrule.run.executor import ToolExecutor
from ferrule.sources.source import Source

_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """`tools_default_set` are the names to offer; empty is all that the source has."""

    tools_enabled: bool = True
    """Whether the gateway offers tools of its own."""
    tools_max_iterations: int = 6
    """How many rounds of calls one answer may take."""
    tools_per_tool_timeout_seconds: float = 30.0
    """How long one call may take."""
    tools_max_parallel: int = 4
    """How many calls of one round run side by side."""
    tools_default_set: tuple[str, ...] = ()
    """The tools to offer, by name; empty is all that there are."""
    tools_require_confirmation_for_side_effects: bool = True
    """Whether a tool that changes the world needs a person's leave for each call."""

    def __post_init__(self) -> None:
        for name in ("tools_max_iterations", "tools_per_tool_timeout_seconds", "tools_max_parallel"):
            if getattr(self, name) <= 0:
                raise DefinitionError(f"{name} must be more than 0", hint="Turn tools off with tools_enabled.")

    @staticmethod
    def read(given: Mapping[str, Any]) -> ToolSettings:
        """From a configuration, or from an environment's texts. Keys are in either case; others are left alone."""
        kinds = get_type_hints(ToolSettings)
        found = {key.lower(): value for key, value in given.items() if key.lower() in kinds}
        return ToolSettings(**{name: _value(name, value, kinds[name]) for name, value in found.items()})

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
            return value if isinstance(value, bool) else _TRUTH[str(value).lower()]
        if kind in (int, float):
            return kind(value)
        return tuple(filter(None, value.split(","))) if isinstance(value, str) else tuple(map(str, value))
    except (KeyError, TypeError, ValueError):
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "names, joined by commas")
        raise DefinitionError(f"{name} cannot be {value!r:.60}", hint=f"Give {wanted}.") from None
