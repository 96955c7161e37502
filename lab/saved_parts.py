"""Sittings: parts of a long measurement, each written down when it is done, so that a run which was stopped goes on.

A part has a name that says all that it depends on. Must not know what is measured.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lab.paths import CACHE


class Sittings:
    """The parts of one measurement, a line of JSON for each."""

    def __init__(self, name: str, folder: Path = CACHE / "results") -> None:
        self._path = folder / f"{name}.parts.jsonl"
        self._parts: dict[str, Any] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            part = json.loads(line)
        except ValueError:
            # The first line, and one that a run was killed amid writing.
            return
        self._parts[part["name"]] = part["value"]

    async def part(self, name: str, measure: Callable[[], Awaitable[Any]]) -> Any:
        """The part as it was measured, now or in an earlier sitting: anything that is JSON."""
        if name not in self._parts:
            value = await measure()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # A line of its own, also behind one that was never ended.
                file.write("\n" + json.dumps({"name": name, "value": value}))
            self._parts[name] = value
        return self._parts[name]

    def forget(self) -> None:
        """The next run measures everything anew: so it is once this one is whole and published."""
        self._path.unlink(missing_ok=True)
        self._parts.clear()
