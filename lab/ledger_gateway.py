"""What the ledger costs a gateway: answers that are kept while they are streamed, and a gateway that does nothing.

The gateway is a process of its own, with an engine whose words are the times at which it wrote them (`clock_engine`).
The CPU that is measured is the gateway's and the server's, and not the clients', which are in this process.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.ledger_server import PostgresServer, cpu_since
from lab.paths import ROOT
from lab.process_cost import cost_of
from lab.servers import ServerFailedError, end_group

WORDS: Final = 60
"""An answer of so many words is 68 events: eight more begin and end it."""
EVENTS: Final = 68
PACE_MILLISECONDS: Final = 20
_SAYS: Final = re.compile(r"serving on http://127\.0\.0\.1:(\d+)\s")
_DELTA: Final = re.compile(rb'"delta":\s*"(\d+) "')
_START_SECONDS: Final = 120.0
_REQUEST: Final = json.dumps(
    {"model": "m", "input": "Tell me the time.", "stream": True, "store": True, "max_output_tokens": WORDS}
)


@dataclass(slots=True)
class Load:
    """What clients saw: how long each word was on its way, and how many events and answers came."""

    waits: list[float] = field(default_factory=list[float])
    events: int = 0
    answers: int = 0
    seconds: float = 0.0


@contextmanager
def gateway(checkout: Path, address: str, pace: int = PACE_MILLISECONDS) -> Generator[tuple[int, int]]:
    """Start a gateway of a checkout on a ledger; yields its port and its process id."""
    command = [sys.executable, "-m", "lab.clock_engine", "serve", "--engine", f"m=clock:{pace}", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONUNBUFFERED": "1"}
    with tempfile.NamedTemporaryFile("w+b") as log:
        process = subprocess.Popen(
            [*command, "--ledger", address],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            yield _port(process, Path(log.name)), process.pid
        finally:
            end_group(process)


def _port(process: "subprocess.Popen[bytes]", log: Path) -> int:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        match = _SAYS.search(log.read_text(errors="replace"))
        if match:
            return int(match[1])
        time.sleep(0.05)
    raise ServerFailedError(f"the gateway did not start; the end of its log: {log.read_text(errors='replace')[-600:]}")


async def load_gateway(port: int, answers: int, width: int) -> Load:
    """Ask for so many kept answers, so many at once, and read them as they are streamed."""
    load, remaining = Load(), iter(range(answers))

    async def keep_asking() -> None:
        for _ in remaining:
            await _read_answer(port, load)

    started = time.monotonic()
    await asyncio.gather(*(keep_asking() for _ in range(width)))
    load.seconds = time.monotonic() - started
    return load


async def _read_answer(port: int, load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(_REQUEST)}\r\nconnection: close\r\n\r\n{_REQUEST}".encode())
    status = await reader.readline()
    assert b" 200 " in status, status
    has_ended = False
    while line := await reader.readline():
        if line.startswith(b"event: "):
            load.events += 1
            has_ended = has_ended or line.startswith(b"event: response.completed")
        elif word := _DELTA.search(line):
            load.waits.append((time.monotonic_ns() - int(word[1])) / 1e9)
    assert has_ended, "the answer broke off"
    load.answers += 1
    writer.close()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measure_answers(server: PostgresServer, checkout: Path, width: int, answers: int) -> dict[str, float]:
    """The cost of a kept answer, with so many at once in one gateway."""
    database = "answers"
    address = server.create(database)
    with gateway(checkout, address) as (port, pid):
        asyncio.run(load_gateway(port, 8, 8))
        counts, own, theirs = server.counts(database), cost_of(pid), server.cpu(database)
        load = asyncio.run(load_gateway(port, answers, width))
        # What is written behind an answer belongs to it.
        time.sleep(1.0)
        after = server.counts(database).since(counts)
        figures = {
            "events": load.events / load.answers,
            "answers/s": load.answers / load.seconds,
            "writing": after.writing / load.answers,
            "statements": after.statements / load.answers,
            "wal_bytes": after.wal_bytes / load.answers,
            "client_cpu": cost_of(pid).since(own).cpu / load.answers,
            "server_cpu": cpu_since(server.cpu(database), theirs) / load.answers,
            "p50": percentile(load.waits, 0.5),
            "p95": percentile(load.waits, 0.95),
        }
    server.drop(database)
    return figures


def measure_idle_gateway(server: PostgresServer, checkout: Path, seconds: float) -> dict[str, float]:
    """Transactions per minute of a gateway that does nothing: a long run less a short one, which only starts and ends.

    A connection reports its transactions when it ends, so each run ends before they are read.
    """
    counted: list[Mapping[str, Any]] = []
    for lasts in (0.0, seconds):
        database = "idle"
        address = server.create(database)
        before = server.counts(database)
        with gateway(checkout, address):
            time.sleep(5.0 + lasts)
        server.wait_until_unused(database)
        after = server.counts(database).since(before)
        counted.append({"transactions": after.transactions, "writing": after.writing, "statements": after.statements})
        server.drop(database)
    short, long = counted
    return {name: (long[name] - short[name]) * 60 / seconds for name in short}
