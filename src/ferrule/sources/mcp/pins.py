"""Pins: which definition of each tool was agreed to, by hash. A value that can be saved as JSON; it does no IO.

A server can change what a tool says of itself after somebody trusted it. What changed is not offered until it is pinned
anew. A tool that is seen for the first time is pinned as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import digest, dumps, loads
from ferrule.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Pins:
    """The hash of each definition, by server and tool. Every change gives a new value.

    `agreed` has the text that each hash is of, so that whoever looks at a change sees both sides. Hashes alone decide;
    pins that were saved without the texts hold no less.
    """

    held: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    agreed: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, server: str, tool: str) -> str | None:
        return self.held.get(server, {}).get(tool)

    def changed(self, server: str, tool: str, definition: str) -> bool:
        """Whether another definition was agreed to."""
        return self.of(server, tool) not in (None, definition)

    def knows(self, definition: str) -> bool:
        """Whether it is kept what a hash is of."""
        return definition in self.agreed

    def before(self, server: str, tool: str) -> str:
        """What was agreed to of a tool; empty where it is not known."""
        return self.agreed.get(self.of(server, tool) or "", "")

    def pinned(self, server: str, definitions: Mapping[str, str], agreed: Mapping[str, str] | None = None) -> Pins:
        """With these definitions agreed to, whatever was before."""
        held = {**self.held, server: {**self.held.get(server, {}), **definitions}}
        return Pins(held, {**self.agreed, **(agreed or {})})

    def to_json(self) -> str:
        pins = {server: dict(tools) for server, tools in self.held.items()}
        used = {pin for tools in pins.values() for pin in tools.values()}
        agreed = {pin: what for pin, what in self.agreed.items() if pin in used}
        return dumps({"version": 1, "pins": pins, **({"agreed": agreed} if agreed else {})})

    @staticmethod
    def from_json(text: str) -> Pins:
        try:
            held: Any = loads(text)
        except (ValueError, RecursionError) as error:
            raise _unreadable(f"not JSON: {error!s:.100}") from error
        if not isinstance(held, dict) or not _are_pins(cast("dict[str, object]", held)):
            raise _unreadable("not what Pins.to_json writes")
        return Pins(cast("dict[str, Any]", held)["pins"], _sound(cast("dict[str, object]", held).get("agreed")))


def _are_pins(held: Mapping[str, object]) -> bool:
    servers = held.get("pins")
    if held.get("version") != 1 or not isinstance(servers, dict):
        return False
    return all(
        isinstance(tools, dict) and all(isinstance(pin, str) for pin in cast("dict[str, object]", tools).values())
        for tools in cast("dict[str, object]", servers).values()
    )


def _sound(agreed: object) -> dict[str, str]:
    """What is really of its hash; the rest is as good as not known."""
    kept = cast("dict[str, object]", agreed) if isinstance(agreed, dict) else {}
    return {pin: text for pin, text in kept.items() if isinstance(text, str) and _hash(text) == pin}


def _hash(text: str) -> str:
    try:
        return digest(loads(text))
    except (ValueError, RecursionError):
        # Nothing that anybody could have agreed to.
        return ""


def _unreadable(why: str) -> DefinitionError:
    # Never read as "no pins": then a changed definition would be taken for a new tool.
    return DefinitionError(
        f"the pins cannot be read: {why}", hint="Restore the file; without it every tool counts as new."
    )
