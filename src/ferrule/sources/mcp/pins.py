"""Pins: the accepted definition of each tool, by hash. A value that can be saved as JSON; it does no I/O.

A server can change a tool's definition after the operator has trusted it. A changed tool is not offered until it is
pinned again. A tool that is seen for the first time is pinned as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import digest, dumps, loads
from ferrule.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Pins:
    """The hash of each definition, by server and tool. It is immutable: every change returns a new value.

    `texts` maps each hash to the definition's text, so that the operator can compare both versions of a changed tool.
    Only hashes decide; pins that were saved without texts are just as valid.
    """

    hashes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, server: str, tool: str) -> str | None:
        return self.hashes.get(server, {}).get(tool)

    def has_changed(self, server: str, tool: str, fingerprint: str) -> bool:
        """Whether another definition of the tool is pinned."""
        return self.of(server, tool) not in (None, fingerprint)

    def has_text(self, fingerprint: str) -> bool:
        """Whether the text of a hash is stored."""
        return fingerprint in self.texts

    def pinned_text(self, server: str, tool: str) -> str:
        """The text of a tool's pinned definition; empty if it is not known."""
        return self.texts.get(self.of(server, tool) or "", "")

    def pin(self, server: str, hashes: Mapping[str, str], texts: Mapping[str, str] | None = None) -> Pins:
        """Return new pins with these definitions, replacing earlier ones."""
        all_hashes = {**self.hashes, server: {**self.hashes.get(server, {}), **hashes}}
        return Pins(all_hashes, {**self.texts, **(texts or {})})

    def to_json(self) -> str:
        pins = {server: dict(tools) for server, tools in self.hashes.items()}
        used = {pin for tools in pins.values() for pin in tools.values()}
        agreed = {pin: what for pin, what in self.texts.items() if pin in used}
        return dumps({"version": 1, "pins": pins, **({"agreed": agreed} if agreed else {})})

    @staticmethod
    def from_json(text: str) -> Pins:
        try:
            document: Any = loads(text)
        except (ValueError, RecursionError) as error:
            raise _unreadable(f"not JSON: {error!s:.100}") from error
        if not isinstance(document, dict) or not _are_pins(cast("dict[str, object]", document)):
            raise _unreadable("not what Pins.to_json writes")
        return Pins(
            cast("dict[str, Any]", document)["pins"], _valid_texts(cast("dict[str, object]", document).get("agreed"))
        )


def _are_pins(document: Mapping[str, object]) -> bool:
    servers = document.get("pins")
    if document.get("version") != 1 or not isinstance(servers, dict):
        return False
    return all(
        isinstance(tools, dict) and all(isinstance(pin, str) for pin in cast("dict[str, object]", tools).values())
        for tools in cast("dict[str, object]", servers).values()
    )


def _valid_texts(agreed: object) -> dict[str, str]:
    """The texts that match their hash; others are ignored."""
    entries = cast("dict[str, object]", agreed) if isinstance(agreed, dict) else {}
    return {pin: text for pin, text in entries.items() if isinstance(text, str) and _hash_of(text) == pin}


def _hash_of(text: str) -> str:
    try:
        return digest(loads(text))
    except (ValueError, RecursionError):
        # It is not the text of a definition.
        return ""


def _unreadable(why: str) -> DefinitionError:
    # Never treat this as "no pins": a changed definition would then pass as a new tool.
    return DefinitionError(
        f"the pins cannot be read: {why}", hint="Restore the file; without it every tool counts as new."
    )
