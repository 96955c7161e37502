"""Share counts between workers: each writes its own file, and the worker that is scraped adds those of the others.

There is one file per worker number and not per process: a restarted worker continues from the file of the one that
died, so that no counter ever decreases. Prometheus would read a decrease as a reset and count everything twice. What a
killed worker counted after its last write is lost: at most a second, and nothing that was ever shown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ferrule.server.observability.metrics import Counts

WRITE_INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SharedCounts:
    """The shared folder, seen from one worker."""

    folder: Path
    worker: int

    def previous_counts(self) -> Counts:
        """The counts of the previous process with this worker number, without its gauges."""
        return _read(self._file(self.worker)).without_gauges()

    def write(self, counts: Counts) -> None:
        # Written aside and renamed, so that no reader sees a partial file.
        temporary = self._file(self.worker).with_suffix(f".{os.getpid()}.new")
        temporary.write_text(json.dumps(counts.as_json()), encoding="utf-8")
        temporary.replace(self._file(self.worker))

    def others(self) -> Iterator[Counts]:
        for file in self.folder.glob("*.counts"):
            if file != self._file(self.worker):
                yield _read(file)

    def _file(self, worker: int) -> Path:
        return self.folder / f"{worker}.counts"


def _read(file: Path) -> Counts:
    try:
        return Counts.from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Counts()
