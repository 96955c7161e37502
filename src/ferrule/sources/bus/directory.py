"""WorkerDirectory: which workers a tenant has, and what each of them serves. It does no I/O and reads no clock.

A look asks all workers at once and takes the answers that arrive in time. A worker that did not answer may be dead, or
only late: swapped out, suspended for a moment, about to reconnect. So what it serves stays until it says goodbye, or
has missed `MISSED_LOOKS` looks in a row. Announcements may cause many looks within a second, which one short pause
would make a worker miss; so a look counts as missed only `LOOK_SECONDS` after the one before.

With three looks a pause of ten seconds goes unnoticed: more than a restart of nats-server, a snapshot of a virtual
machine or a long garbage collection takes. A worker that was killed stays in the list for ten to fifteen seconds. That
is harmless, because NATS knows at once that it is gone: a call that nobody else serves is then not delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ferrule.core.json_text import fingerprint
from ferrule.sources.bus.subject import Capability

MISSED_LOOKS = 3
LOOK_SECONDS = 5.0
ServedTool = tuple[Capability, str]
"""A capability, and the hash of its definition."""
ServedList = tuple[ServedTool, ...]


def list_hash(tools: Iterable[ServedTool]) -> str:
    """The hash of what a worker serves. Workers that serve the same have the same hash, whatever the order."""
    return fingerprint(sorted([str(capability), definition] for capability, definition in tools))


@dataclass(slots=True)
class KnownWorker:
    """A worker that has answered a look."""

    id: str
    list_hash: str
    missed: int = 0
    """How many looks in a row it has missed."""
    missed_at: float = 0.0


class WorkerDirectory:
    """The workers of a tenant. A look is `begin_look`, then `end_look` with the answers; there is one at a time."""

    def __init__(self) -> None:
        self._workers: dict[str, KnownWorker] = {}
        self._lists: dict[str, ServedList] = {}
        self._departed: set[str] = set()
        """The workers that said goodbye since the look began. Their answers to it are older than that."""

    @property
    def workers(self) -> tuple[KnownWorker, ...]:
        return tuple(self._workers.values())

    def knows_list(self, hash: str) -> bool:
        return hash in self._lists

    def served(self) -> list[ServedTool]:
        """Everything that the known workers serve. A tool that many workers serve may be in it once."""
        hashes = {worker.list_hash for worker in self._workers.values()}
        return [tool for hash in sorted(hashes) for tool in self._lists[hash]]

    def begin_look(self) -> None:
        self._departed.clear()

    def learn_list(self, tools: Iterable[ServedTool]) -> str:
        """Keep what a worker serves. Returns its hash."""
        unique = tuple(dict.fromkeys(tools))
        hash = list_hash(unique)
        self._lists[hash] = unique
        return hash

    def end_look(self, answers: Mapping[str, str], now: float) -> None:
        """Take the answers of a look: for each worker the hash of what it serves. Its list must be known."""
        for id, hash in answers.items():
            if id not in self._departed and hash in self._lists:
                worker = self._workers.setdefault(id, KnownWorker(id, hash))
                worker.list_hash, worker.missed = hash, 0
        for worker in self.workers:
            if worker.id not in answers:
                self._count_missed_look(worker, now)
        used = {worker.list_hash for worker in self._workers.values()}
        self._lists = {hash: tools for hash, tools in self._lists.items() if hash in used}

    def depart(self, id: str) -> None:
        """A worker said goodbye. It answers no look that begins later."""
        self._departed.add(id)
        self._workers.pop(id, None)

    def _count_missed_look(self, worker: KnownWorker, now: float) -> None:
        if worker.missed and now - worker.missed_at < LOOK_SECONDS:
            return
        worker.missed += 1
        worker.missed_at = now
        if worker.missed >= MISSED_LOOKS:
            del self._workers[worker.id]
