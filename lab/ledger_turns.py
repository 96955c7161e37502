"""What a turn and a call cost in a ledger: the parts of `scripts/bench-ledger` that use no gateway.

Every function measures several checkouts by turns and returns the figures of each. What is returned is JSON.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from lab.ledger_growth import smallest, worker_of
from lab.ledger_proxy import counting_proxy
from lab.ledger_script import LEASE_SECONDS
from lab.ledger_server import PostgresServer, cpu_since
from lab.workers import Worker

Checkouts = Mapping[str, Path]
Figures = dict[str, Any]
SCRIPTS: Final = {
    "answer without tools": "answer",
    "one reading tool": "look 1",
    "one effect": "pay 1",
    "three effects in one round": "pay 3",
}
LENGTHS: Final = (10, 100, 1_000, 3_000)
WIDTHS: Final = (1, 8, 32)
# Few are enough for the driver to prepare each statement, which takes a round trip of its own, once per connection.
_FEW, _MANY = 4, 14


def measure_counts(server: PostgresServer, checkouts: Checkouts) -> dict[str, Figures]:
    """What the server counts of each kind of turn, and the round trips that a relay counts.

    `new` is a conversation of one turn, opened and closed; `next` is one more turn in an open conversation. Both are
    the difference between many and few, so that opening the ledger is not in them.
    """
    return {label: _counts_of(server, checkout) for label, checkout in checkouts.items()}


def _counts_of(server: PostgresServer, checkout: Path) -> Figures:
    database = "counted"
    server.create(database)
    with (
        TemporaryDirectory(prefix="ferrule-relay-") as folder,
        counting_proxy(server.folder, Path(folder)) as trips,
        worker_of(checkout) as worker,
    ):
        address = server.address(database, Path(folder))

        def count(script: str, conversations: int, turns: int) -> dict[str, int]:
            before, trips_before = server.counts(database), trips.count
            request = {"script": script, "conversations": conversations, "turns": turns}
            worker.ask({"measure": "turns", "address": address, **request})
            worker.ask({"measure": "close", "address": address})
            server.wait_until_unused(database)
            after = server.counts(database).since(before)
            return {
                "transactions": after.transactions,
                "writing": after.writing,
                "statements": after.statements,
                "round_trips": trips.count - trips_before,
            }

        # The first one makes the tables.
        count("answer", 1, 1)
        figures = {
            name: {
                "new": per_turn(count(script, _FEW, 1), count(script, _MANY, 1), _MANY - _FEW),
                "next": per_turn(count(script, 1, _FEW), count(script, 1, _MANY), _MANY - _FEW),
            }
            for name, script in SCRIPTS.items()
        }
    server.drop(database)
    return figures


def per_turn(few: Mapping[str, int], many: Mapping[str, int], turns: int) -> dict[str, float]:
    """The counts of one turn, from those of many turns less those of few."""
    return {name: (many[name] - few[name]) / turns for name in few}


def measure_lengths(
    server: PostgresServer, checkouts: Checkouts, rounds: int, lengths: Sequence[int] = LENGTHS
) -> dict[str, Figures]:
    """What a turn with an effect costs in conversations of so many messages, in PostgreSQL and in SQLite."""
    figures: dict[str, Figures] = {label: {"postgres": {}, "sqlite": {}} for label in checkouts}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ferrule-sqlite-")))
        workers = {label: stack.enter_context(worker_of(checkout)) for label, checkout in checkouts.items()}
        for kind in ("postgres", "sqlite"):
            addresses = {
                label: server.create(label) if kind == "postgres" else str(folder / f"{label}.db")
                for label in checkouts
            }
            for length in lengths:
                answers: dict[str, list[dict[str, float]]] = {label: [] for label in checkouts}
                for number in range(rounds + 1):
                    for label, worker in workers.items():
                        name, at = f"{length}-{number}", addresses[label]
                        # Each round has a conversation of its own, because a conversation grows by its turns.
                        worker.ask({"measure": "prepare", "address": at, "messages": length, "name": name})
                        worker.ask({"measure": "turn", "name": name, "script": "pay 1", "turns": 1})
                        answer = _turn(server, worker, label, name, kind)
                        if number:
                            answers[label].append(answer)
                for label, each in answers.items():
                    figures[label][kind][str(length)] = smallest(each)
            for label, worker in workers.items():
                worker.ask({"measure": "close", "address": addresses[label]})
        for label in checkouts:
            server.drop(label)
    return figures


def _turn(server: PostgresServer, worker: Worker, label: str, name: str, kind: str) -> dict[str, float]:
    turns = 3
    counts, cpu = server.counts(label), server.cpu(label)
    answer = worker.ask({"measure": "turn", "name": name, "script": "pay 1", "turns": turns})
    after = server.counts(label).since(counts)
    written = after.wal_bytes if kind == "postgres" else answer["written"]
    theirs = cpu_since(server.cpu(label), cpu) if kind == "postgres" else 0.0
    return {"written": written / turns, "client_cpu": answer["cpu"] / turns, "server_cpu": theirs / turns}


def measure_calls(
    server: PostgresServer, checkouts: Checkouts, rounds: int, widths: Sequence[int] = WIDTHS
) -> dict[str, Figures]:
    """Calls per second and CPU per call: in conversations, by the ledger's own methods, and two bare commits.

    The bare commits use as many connections as the ledger does. Ratios are between neighbours, of which the middle one
    counts.
    """
    figures: dict[str, Figures] = {label: {} for label in checkouts}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ferrule-sqlite-")))
        workers = {label: stack.enter_context(worker_of(checkout)) for label, checkout in checkouts.items()}
        for label in workers:
            server.create(label)
        server.create("bare")
        for width in widths:
            for label, figure in _calls_at(server, workers, width, rounds).items():
                figures[label][str(width)] = figure
        for label, worker in workers.items():
            worker.ask({"measure": "close", "address": server.address(label)})
            worker.ask({"measure": "close", "address": server.address("bare")})
        for label, figure in _sqlite_calls(folder, workers, rounds).items():
            figures[label]["sqlite"] = figure
        for database in (*workers, "bare"):
            server.drop(database)
    return figures


def _calls_at(server: PostgresServer, workers: Mapping[str, Worker], width: int, rounds: int) -> dict[str, Figures]:
    runs: dict[str, list[Figures]] = {label: [] for label in workers}
    for number in range(rounds + 1):
        for label, worker in workers.items():
            at, bare = server.address(label), server.address("bare")
            calls = 100 * width if width < 8 else 40 * width

            def run(request: Mapping[str, Any], database: str, worker: Worker = worker) -> dict[str, float]:
                before = server.cpu(database)
                answer = worker.ask(request)
                return _per_call(answer, cpu_since(server.cpu(database), before))

            turns = max(4, 2 * width)
            conversation = run({"measure": "calls", "address": at, "width": width, "turns": turns}, label)
            connections = server.connections(label)
            request = {"measure": "bare", "address": bare, "width": width, "connections": connections, "calls": calls}
            first = run(request, "bare")
            direct = run({"measure": "direct", "address": at, "width": width, "calls": calls // 4}, label)
            second = run(request, "bare")
            loop = worker.ask({"measure": "calls", "address": "", "width": width, "turns": 4 * turns})
            if number:
                pairs = {"conversation": (conversation, first), "direct": (direct, second)}
                runs[label].append(_figures(pairs, loop["cpu"] / loop["done"], connections))
    return {label: middle(each) for label, each in runs.items()}


def _sqlite_calls(folder: Path, workers: Mapping[str, Worker], rounds: int) -> dict[str, Figures]:
    runs: dict[str, list[Figures]] = {label: [] for label in workers}
    for number in range(rounds + 1):
        for label, worker in workers.items():
            at, bare = str(folder / f"{label}-calls.db"), {"measure": "bare", "address": str(folder / "bare.db")}
            conversation = worker.ask({"measure": "calls", "address": at, "width": 1, "turns": 4})
            first = worker.ask({**bare, "calls": 50})
            direct = worker.ask({"measure": "direct", "address": at, "width": 1, "calls": 30})
            second = worker.ask({**bare, "calls": 50})
            loop = worker.ask({"measure": "calls", "address": "", "width": 1, "turns": 16})
            if number:
                pairs = {
                    "conversation": (_per_call(conversation), _per_call(first)),
                    "direct": (_per_call(direct), _per_call(second)),
                }
                runs[label].append(_figures(pairs, loop["cpu"] / loop["done"], 1))
    for label, worker in workers.items():
        worker.ask({"measure": "close", "address": str(folder / f"{label}-calls.db")})
    return {label: middle(each) for label, each in runs.items()}


def _per_call(answer: Mapping[str, Any], server_cpu: float = 0.0) -> dict[str, float]:
    """Nothing if no call was made, because the way to make one is not known."""
    if not answer["done"]:
        return {}
    done = answer["done"]
    return {"rate": done / answer["seconds"], "client_cpu": answer["cpu"] / done, "server_cpu": server_cpu / done}


def _figures(
    pairs: Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]], loop: float, connections: int
) -> Figures:
    figures: Figures = {"loop": {"client_cpu": loop}, "connections": {"count": connections}}
    for name, (ours, bare) in pairs.items():
        if ours:
            figures[name] = {**ours, "of_bare": ours["rate"] / bare["rate"]}
        figures["bare"] = dict(bare)
    return figures


def middle(runs: Sequence[Mapping[str, Mapping[str, float]]]) -> Figures:
    """The median of each figure."""
    return {name: {key: statistics.median(run[name][key] for run in runs) for key in runs[0][name]} for name in runs[0]}


def measure_held(server: PostgresServer, checkouts: Checkouts, counts: Sequence[int]) -> dict[str, Figures]:
    """Transactions that write, in each second, while so many conversations have a turn under way that does nothing."""
    figures: dict[str, Figures] = {label: {} for label in checkouts}
    for count in counts:
        for label, checkout in checkouts.items():
            with worker_of(checkout) as worker:
                address = server.create(label)
                worker.ask({"measure": "hold", "address": address, "count": count})
                # A turn that has lasted a third of its lease is noted, once: that is no cost of waiting.
                worker.ask({"measure": "idle", "seconds": LEASE_SECONDS})
                before, cpu, started = server.writing_transactions(), server.cpu(label), time.monotonic()
                # Six renewals of each lease.
                idle = worker.ask({"measure": "idle", "seconds": 2 * LEASE_SECONDS})
                seconds = time.monotonic() - started
                figures[label][str(count)] = {
                    "writing": (server.writing_transactions() - before) / seconds,
                    "client_cpu": idle["cpu"] / seconds,
                    "server_cpu": cpu_since(server.cpu(label), cpu) / seconds,
                }
                figures[label][str(count)] |= worker.ask({"measure": "release"})
                worker.ask({"measure": "close", "address": address})
                server.drop(label)
    return figures
