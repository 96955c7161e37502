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

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ferrule.core.json_text import fingerprint
from ferrule.sources.bus.subject import Capability

MISSED_LOOKS = 3
LOOK_SECONDS = 5.0
_MAX_CAPABILITIES = 10_000
ServedTool = tuple[Capability, str]
"""A capability, and the hash of its definition."""
ServedList = tuple[ServedTool, ...]


def list_hash(tools: Iterable[ServedTool]) -> str:
    """The hash of what a worker serves. Workers that serve the same have the same hash, whatever the order."""
    return fingerprint(sorted([str(capability), definition] for capability, definition in tools))


@dataclass(slots=True, eq=False)
class KnownWorker:
    """A worker that has answered a look."""

    id: str
    list_hash: str
    cap: int = 0
    """How many calls it takes at once; 0 if it cannot be called by its id."""
    missed: int = 0
    """How many looks in a row it has missed."""
    missed_at: float = 0.0
    is_unreachable: bool = False
    """Whether NATS said, since the last look, that nobody listens where it is called."""
    is_silent: bool = False
    """Whether it fell silent during a call, and nothing was heard from it since."""
    running: int = 0
    """The calls of this caller that it runs."""
    busy_count: int = 0
    busy_until: float = 0.0
    waiters: dict[asyncio.Future[KnownWorker], None] = field(default_factory=dict["asyncio.Future[KnownWorker]", None])
    """The calls that wait for a slot, in their order."""


class WorkerDirectory:
    """The workers of a tenant. A look is `begin_look`, then `end_look` with the answers; there is one at a time."""

    def __init__(self) -> None:
        self._workers: dict[str, KnownWorker] = {}
        self._lists: dict[str, ServedList] = {}
        self._minor_versions: dict[str, dict[tuple[str, str, int], int]] = {}
        """For each list the newest minor version of each major version of a capability."""
        self._by_capability: dict[Capability, tuple[KnownWorker, ...]] = {}
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

    def workers_of(self, required: Capability) -> tuple[KnownWorker, ...]:
        """The workers that serve a capability and can be called by their ids.

        It is empty if one that serves the capability cannot be: calls then go to all of them by the queue group.
        """
        workers = self._by_capability.get(required)
        if workers is None:
            if len(self._by_capability) >= _MAX_CAPABILITIES:
                self._by_capability.clear()
            workers = self._by_capability[required] = self._find_workers(required)
        return workers

    def _find_workers(self, required: Capability) -> tuple[KnownWorker, ...]:
        key = (required.server, required.tool, required.major)
        workers = [
            worker
            for worker in self._workers.values()
            if self._minor_versions[worker.list_hash].get(key, -1) >= required.minor
        ]
        if not all(worker.cap for worker in workers):
            return ()
        return tuple(worker for worker in workers if not worker.is_unreachable)

    def mark_unreachable(self, worker: KnownWorker) -> None:
        """Do not call a worker by its id until it answers the next look."""
        worker.is_unreachable = True
        self._by_capability.clear()

    def begin_look(self) -> None:
        self._departed.clear()
        # A worker without tools has nothing to send.
        self.learn_list(())

    def learn_list(self, tools: Iterable[ServedTool]) -> str:
        """Keep what a worker serves. Returns its hash."""
        unique = tuple(dict.fromkeys(tools))
        hash = list_hash(unique)
        if hash not in self._lists:
            versions = self._minor_versions[hash] = {}
            for capability, _ in unique:
                key = (capability.server, capability.tool, capability.major)
                versions[key] = max(capability.minor, versions.get(key, 0))
            self._lists[hash] = unique
        return hash

    def end_look(self, answers: Mapping[str, tuple[str, int]], now: float) -> None:
        """Take the answers of a look: for each worker the hash of what it serves, and its cap. Lists must be known."""
        for id, (hash, cap) in answers.items():
            if id not in self._departed and hash in self._lists:
                worker = self._workers.setdefault(id, KnownWorker(id, hash))
                worker.list_hash, worker.cap, worker.missed = hash, cap, 0
                worker.is_unreachable = worker.is_silent = False
        for worker in self.workers:
            if worker.id not in answers:
                self._count_missed_look(worker, now)
        used = {worker.list_hash for worker in self._workers.values()}
        self._lists = {hash: tools for hash, tools in self._lists.items() if hash in used}
        self._minor_versions = {hash: versions for hash, versions in self._minor_versions.items() if hash in used}
        self._by_capability.clear()

    def depart(self, id: str) -> None:
        """A worker said goodbye. It answers no look that begins later."""
        self._departed.add(id)
        self._workers.pop(id, None)
        self._by_capability.clear()

    def _count_missed_look(self, worker: KnownWorker, now: float) -> None:
        if worker.missed and now - worker.missed_at < LOOK_SECONDS:
            return
        worker.missed += 1
        worker.missed_at = now
        if worker.missed >= MISSED_LOOKS:
            del self._workers[worker.id]
