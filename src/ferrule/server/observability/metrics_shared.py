"""Counts of several workers as one: each writes its own down, whoever is asked adds the others' to his.

A file for each place and not for each process: a worker that stands in for one that died goes on counting from where
the file ends, so that no sum ever goes down. A sum that did would be read as a restart of everything, and be counted
twice. What a killed worker counted after its last writing is lost: a second at most, and nothing that was ever shown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ferrule.server.observability.metrics import Counts

SECONDS_BETWEEN_WRITINGS = 1.0


@dataclass(frozen=True, slots=True)
class Shared:
    """The place of one worker among those that share a folder."""

    folder: Path
    place: int

    def begun_with(self) -> Counts:
        """What was counted in this place before; the gauges of who is dead are not."""
        return _read(self._file(self.place)).without_gauges()

    def write(self, counts: Counts) -> None:
        # Renamed into place, so that nobody reads half of it.
        beside = self._file(self.place).with_suffix(f".{os.getpid()}.new")
        beside.write_text(json.dumps(counts.as_json()), encoding="utf-8")
        beside.replace(self._file(self.place))

    def others(self) -> Iterator[Counts]:
        for file in self.folder.glob("*.counts"):
            if file != self._file(self.place):
                yield _read(file)

    def _file(self, place: int) -> Path:
        return self.folder / f"{place}.counts"


def _read(file: Path) -> Counts:
    try:
        return Counts.from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Counts()
