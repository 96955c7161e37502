"""What lists, a search, the sweep and a turn cost in a ledger of many conversations: the growth part of `bench-ledger`.

Each checkout has a server of its own, with a database for each size, kept in `.cache/ledger-growth`: to fill the
largest takes many minutes. A database has its name only when it is full, so an interrupted run begins again from the
next smaller one. Turns run in a copy, so that the databases stay as they were.
"""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from lab.ledger_content import LISTS, OPENING, TURN
from lab.ledger_server import PostgresServer, cpu_since, postgres_server
from lab.paths import CACHE, ROOT
from lab.workers import Worker

SIZES: Final = (1_000, 10_000, 100_000)
FOLDER: Final = CACHE / "ledger-growth"
_FILLING, _COPY = "filling", "copy"
_STEP: Final = 1_000
"""How many conversations a worker adds with one request."""
_WORKERS: Final = 2
REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{name: {"measure": "list", "list": name, "times": 4} for name in LISTS},
    OPENING: {"measure": "old_conversations", "with_turn": False, "times": 8},
    TURN: {"measure": "old_conversations", "with_turn": True, "times": 4},
}


def worker_of(checkout: Path) -> Worker:
    """A worker that uses the ledger of a checkout."""
    python = ROOT / ".venv" / "bin" / "python"
    return Worker(python, "lab.ledger_worker", "run scripts/setup", checkout / "src")


def fingerprint(checkout: Path) -> str:
    """A name for the code of a checkout's ledger: another ledger has other tables, and needs another database."""
    folder = checkout / "src" / "ferrule" / "run"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def database_of(size: int) -> str:
    return f"n{size}"


def measure_growth(
    checkouts: Mapping[str, Path], sizes: Sequence[int], rounds: int, console: Console
) -> dict[str, dict[str, Any]]:
    """For each checkout and size, what each cost takes, the smallest by turns; and the bytes on disk.

    A cost is the CPU seconds of the program and the server together, and wall seconds.
    """
    folders = {label: FOLDER / fingerprint(checkout) for label, checkout in checkouts.items()}
    for label, checkout in checkouts.items():
        _fill_sizes(checkout, folders[label], sizes, console, label)
    figures: dict[str, dict[str, Any]] = {label: {} for label in checkouts}
    with ExitStack() as stack:
        servers: dict[str, PostgresServer] = {}
        for label in checkouts:
            # Two checkouts with the same ledger share a folder, which only one server can use.
            same = next((other for other in servers if folders[other] == folders[label]), None)
            servers[label] = servers[same] if same else stack.enter_context(postgres_server(folders[label]))
        workers = {label: stack.enter_context(worker_of(checkout)) for label, checkout in checkouts.items()}
        for size in sizes:
            copies = {label: f"{_COPY}_{label}" for label in workers}
            for label, server in servers.items():
                server.copy(database_of(size), copies[label])
                server.analyze(copies[label])
                server.checkpoint()
            costs = {
                name: _cost_by_turns(workers, servers, copies, request, rounds) for name, request in REQUESTS.items()
            }
            for label, server in servers.items():
                workers[label].ask({"measure": "close", "address": server.address(copies[label])})
                server.drop(copies[label])
                figures[label][str(size)] = {
                    "bytes": server.size(database_of(size)),
                    **{name: cost[label] for name, cost in costs.items()},
                }
            console.print(f"growth: {size:,} conversations measured", markup=False, highlight=False)
    return figures


def _cost_by_turns(
    workers: Mapping[str, Worker],
    servers: Mapping[str, PostgresServer],
    copies: Mapping[str, str],
    request: Mapping[str, Any],
    rounds: int,
) -> dict[str, dict[str, float]]:
    answers: dict[str, list[dict[str, float]]] = {label: [] for label in workers}
    # The first round, which reads pages and plans statements, is discarded.
    for number in range(rounds + 1):
        for label, worker in workers.items():
            server, copy = servers[label], copies[label]
            before = server.cpu(copy)
            answer = worker.ask({**request, "address": server.address(copy)})
            cpu = answer["cpu"] + cpu_since(server.cpu(copy), before)
            if number:
                answers[label].append({"cpu": cpu / answer["done"], "seconds": answer["smallest"]})
    return {label: smallest(each) for label, each in answers.items()}


def smallest(answers: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The smallest of each figure."""
    return {name: min(answer[name] for answer in answers) for name in answers[0]}


def _fill_sizes(checkout: Path, folder: Path, sizes: Sequence[int], console: Console, label: str) -> None:
    """Make the databases that are missing, each from the next smaller one."""
    with postgres_server(folder, is_durable=False) as server:
        filled = 0
        for size in sizes:
            if not server.has(database_of(size)):
                console.print(f"growth: filling {size:,} ({label})", markup=False, highlight=False)
                address = server.copy(database_of(filled), _FILLING) if filled else server.create(_FILLING)
                _fill(checkout, address, filled, size)
                server.wait_until_unused(_FILLING)
                server.analyze(_FILLING)
                server.rename(_FILLING, database_of(size))
            filled = size


def _fill(checkout: Path, address: str, first: int, last: int) -> None:
    """Add the conversations from `first` to `last` with several processes."""
    starts = iter(range(first, last, _STEP))

    def work(worker: Worker) -> None:
        for start in starts:
            count = min(_STEP, last - start)
            worker.ask({"measure": "fill", "address": address, "first": start, "count": count, "width": 4})

    with ExitStack() as stack, ThreadPoolExecutor(_WORKERS) as pool:
        workers = [stack.enter_context(worker_of(checkout)) for _ in range(_WORKERS)]
        # The first one makes the tables.
        workers[0].ask({"measure": "fill", "address": address, "first": first, "count": 0, "width": 1})
        for done in [pool.submit(work, worker) for worker in workers]:
            done.result()
        for worker in workers:
            worker.ask({"measure": "close", "address": address})
