"""PinsFile: the file in which the accepted definitions of MCP tools are kept."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ferrule.cli import json_view
from ferrule.core.json_text import loads
from ferrule.errors import DefinitionError
from ferrule.sources.mcp.pins import Pins


@dataclass(frozen=True, slots=True)
class PinsFile:
    """A file of pins. It need not exist yet."""

    path: Path

    def read(self) -> Pins:
        try:
            return Pins.from_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Pins()
        except (OSError, UnicodeDecodeError) as problem:
            raise DefinitionError(f"cannot read {self.path}", hint="Name a file of pins, or a new file.") from problem

    def write(self, pins: Pins) -> None:
        """Write the file atomically: a concurrent reader sees the old file or the new one."""
        text = json_view.page(loads(pins.to_json())) + "\n"
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path.parent, prefix=f".{self.path.name}-", delete=False
            ) as new:
                new.write(text)
            os.replace(new.name, self.path)
        except OSError as problem:
            raise DefinitionError(
                f"cannot write {self.path}: {problem.strerror}",
                hint="Name a file in a writable directory.",
            ) from problem
