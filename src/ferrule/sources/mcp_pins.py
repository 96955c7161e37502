"""Pins: which definition of each tool was agreed to, by hash. A value that can be saved as JSON; it does no IO.

A server can change what a tool says of itself after somebody trusted it. What changed is not offered until it is pinned
anew. A tool that is seen for the first time is pinned as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Pins:
    """The hash of each definition, by server and tool. Every change gives a new value."""

    held: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def of(self, server: str, tool: str) -> str | None:
        return self.held.get(server, {}).get(tool)

    def changed(self, server: str, tool: str, definition: str) -> bool:
        """Whether another definition was agreed to."""
        return self.of(server, tool) not in (None, definition)

    def pinned(self, server: str, definitions: Mapping[str, str]) -> Pins:
        """With these definitions agreed to, whatever was before."""
        return Pins({**self.held, server: {**self.held.get(server, {}), **definitions}})

    def to_json(self) -> str:
        return dumps({"version": 1, "pins": {server: dict(tools) for server, tools in self.held.items()}})

    @staticmethod
    def from_json(text: str) -> Pins:
        try:
            held: Any = loads(text)
        except (ValueError, RecursionError) as error:
            raise _unreadable(f"not JSON: {error!s:.100}") from error
        if not isinstance(held, dict) or not _are_pins(cast("dict[str, object]", held)):
            raise _unreadable("not what Pins.to_json writes")
        return Pins(cast("dict[str, dict[str, dict[str, str]]]", held)["pins"])


def _are_pins(held: Mapping[str, object]) -> bool:
    servers = held.get("pins")
    if held.get("version") != 1 or not isinstance(servers, dict):
        return False
    return all(
        isinstance(tools, dict) and all(isinstance(pin, str) for pin in cast("dict[str, object]", tools).values())
        for tools in cast("dict[str, object]", servers).values()
    )


def _unreadable(why: str) -> DefinitionError:
    # Never read as "no pins": then a changed definition would be taken for a new tool.
    return DefinitionError(
        f"the pins cannot be read: {why}", hint="Restore the file; without it every tool counts as new."
    )
