"""SavedParts: store the parts of a long measurement as they finish, so that an interrupted run can resume.

The name of a part contains everything that it depends on. Independent of what is measured.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lab.paths import CACHE


class SavedParts:
    """The parts of one measurement, one line of JSON each."""

    def __init__(self, name: str, folder: Path = CACHE / "results") -> None:
        self._path = folder / f"{name}.parts.jsonl"
        self._parts: dict[str, Any] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self._load_line(line)

    def _load_line(self, line: str) -> None:
        try:
            part = json.loads(line)
        except ValueError:
            # The empty first line, or a line that a killed run did not finish.
            return
        self._parts[part["name"]] = part["value"]

    async def part(self, name: str, measure: Callable[[], Awaitable[Any]]) -> Any:
        """Return the stored value of a part, or measure and store it. The value must be JSON."""
        if name not in self._parts:
            value = await measure()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # The newline comes first, so that an unfinished line before it does no harm.
                file.write("\n" + json.dumps({"name": name, "value": value}))
            self._parts[name] = value
        return self._parts[name]

    def get(self, name: str) -> Any:
        """Return the stored value of a part; None if it has not been measured."""
        return self._parts.get(name)

    def clear(self) -> None:
        """Delete all parts, so that the next run measures everything again. Called once a run is published."""
        self._path.unlink(missing_ok=True)
        self._parts.clear()
