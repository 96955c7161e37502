"""Pins in a file: which definitions of MCP tools were agreed to, kept over restarts. Knows no gateway."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ferrule.cli import json_view
from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.adapters import Wrapped
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.servers import McpServers


@dataclass(frozen=True, slots=True)
class PinsFile:
    """A file that need not be there yet."""

    path: Path

    def read(self) -> Pins:
        try:
            return Pins.from_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Pins()
        except (OSError, UnicodeDecodeError) as problem:
            raise DefinitionError(f"{self.path} cannot be read", hint="Name a file of pins, or a new one.") from problem

    def write(self, pins: Pins) -> None:
        """All at once: whoever reads meanwhile sees the old file or the new one. A person can read it too."""
        text = json_view.page(loads(pins.to_json())) + "\n"
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path.parent, prefix=f".{self.path.name}-", delete=False
            ) as new:
                new.write(text)
            os.replace(new.name, self.path)
        except OSError as problem:
            raise DefinitionError(
                f"{self.path} cannot be written: {problem.strerror}",
                hint="Name a file in a folder that can be written.",
            ) from problem


class Pinned(Wrapped):
    """MCP servers whose pins are written down as soon as there are new ones."""

    def __init__(self, inner: McpServers, kept: PinsFile) -> None:
        super().__init__(inner)
        self.servers = inner
        self._kept = kept
        self._written = inner.pins

    async def tools(self) -> tuple[ToolDefinition, ...]:
        found = await self.servers.tools()
        now = self.servers.pins
        if now != self._written:
            try:
                self._kept.write(now)
            except DefinitionError:
                # Pins that somebody keeps from being written still hold; what they are of is for people only.
                if now.held != self._written.held:
                    raise
            self._written = now
        return found
