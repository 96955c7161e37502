"""CPU of a plain chat request with keys, limits, quotas and tokens, beside none: `scripts/long admission-costs`.

Each variant has a gateway of its own, with the same scripted engines; all of them get the same requests by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.keys import KeyPermissions
from ferrule.server.auth.issued_keys import issue_key
from lab.environment import describe_environment, measured_environment
from lab.gateway_peers import upstream
from lab.gateway_process import gateway_process
from lab.process_cost import own_cpu
from lab.results_page import publish
from live.valkey_server import valkey_server
from server.issuer import AUDIENCE, Issuer, issuer

TARGET_PERCENT: Final = 10.0
_SECTION: Final = "admission-costs"
_HEADING: Final = "What keys, limits and identity cost a plain request"
_COMMAND: Final = "```sh\nscripts/setup-valkey\nscripts/long admission-costs\n```"
_ABOUT: Final = (
    "CPU milliseconds of one chat request without tools in the process of `ferrule serve`: the least of {rounds} "
    "rounds of {count} requests in each of {starts} processes, one at a time on a kept connection. Two processes "
    "of the same program differ in speed by some percent, so each variant is started as often. All have the same two "
    "scripted engines: one in the process, which costs least, and one over HTTP, as an engine usually is. An answer "
    "has eight words. The ledger is in SQLite and records no traces, so that little else is counted. All variants take "
    "turns in each round. The quotas count requests and tokens of a day. What a process does once in a second or in "
    "ten, such as writing the last use of keys, is hardly in the least round. *Added*: to the less of the first two "
    "rows, which are the same configuration in different processes: what is added to the other one is only a "
    "part of the error of these figures. *p50*: the median time until the whole answer arrived, of all "
    f"rounds, on a machine that other programs used too. The aim is that at most {TARGET_PERCENT:g}% are added."
)
_ENGINES: Final = {"m": "an engine in the process of the gateway", "h": "an engine over HTTP"}
"""By the names of their models."""
_EVENTS: Final = 8
_BASES: Final = ("no keys", "no keys, another process")
_FILE: Final = "a key of the configuration file"
_MEMORY: Final = "key, quotas in memory"
_VALKEY: Final = "key, quotas in Valkey"
_TOKEN: Final = "token of an OIDC issuer"
_NEW_TOKEN: Final = "a new token with each request"
_ALL: Final = "all: token, keys, rate, width, quotas in Valkey"
_ROUND_TRIPS: Final = (
    "two round trips to the server for each request, one before the answer and one behind it, each of about 0.1 ms in "
    "a loop, of which about 0.02 ms remain without the client library (redis-py)"
)
_PROCESSES: Final = (
    "a key with rate and width is checked for more and added less, so a part of this is a difference between processes"
)
_REASONS: Final = {
    _FILE: f"in a loop, the check of a key takes about 0.005 ms; {_PROCESSES}",
    _MEMORY: "in a loop, both quotas and the values of their twelve headers take about 0.015 ms; the rest was not "
    "found in one place, and differences between processes are of its size",
    _VALKEY: _ROUND_TRIPS,
    _TOKEN: f"in a loop, the check of a known token takes about 0.01 ms; {_PROCESSES}",
    _NEW_TOKEN: "verifying it takes about 0.2 ms in a loop, a third of it for the signature (ES256) and the rest for "
    "reading it; a token that was verified is kept, and costs a hash from then on",
    _ALL: f"of it, the quotas in Valkey: {_ROUND_TRIPS}",
}
"""What limits the variants of which it is known."""
_KEY: Final = "key-of-the-configuration-file"
_NAME: Final = "app"
_WARMUP: Final = 20
_FILE_KEY: Final = f'[keys.{_NAME}]\nsha256 = "{hashlib.sha256(_KEY.encode()).hexdigest()}"\n'
_RATE: Final = "rate = 1_000_000\nwidth = 100\n"
_QUOTAS: Final = "".join(
    f'[quotas.{counts}]\ncounts = "{counts}"\nmost = 1_000_000_000\nper = "day"\n' for counts in ("requests", "tokens")
)
_CONFIG: Final = (
    f'[engines.m]\nuse = "fake:{"word " * _EVENTS}"\n[engines.h]\nuse = "openai:m?url={{engine}}/0/v1&key=x"\n'
    '[server]\nport = 0\nledger = "{ledger}"\n{server}[traces]\ndays = 0\n{more}'
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a request asks for."""

    model: str
    is_streamed: bool

    @property
    def label(self) -> str:
        return f"{'streamed' if self.is_streamed else 'not streamed'}, {_ENGINES[self.model]}"

    @property
    def body(self) -> str:
        messages = [{"role": "user", "content": "Say a few words."}]
        return json.dumps(
            {"model": self.model, "messages": messages, "max_tokens": _EVENTS, "stream": self.is_streamed}
        )


KINDS: Final = tuple(Kind(model, is_streamed) for model in _ENGINES for is_streamed in (True, False))


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration, and what its requests send. `credential` is called for each request."""

    config: str = ""
    server: str = ""
    credential: Callable[[], str] = str
    has_ledger_key: bool = False


@dataclass(slots=True)
class Cost:
    """Of one variant and one kind of request: CPU milliseconds of each round, and milliseconds of each request."""

    cpu: list[float] = field(default_factory=list[float])
    wall: list[float] = field(default_factory=list[float])

    @property
    def least(self) -> float:
        return min(self.cpu)

    @property
    def p50(self) -> float:
        return statistics.median(self.wall)


@dataclass(slots=True)
class Gateway:
    """A running gateway, and the connection on which it gets its requests."""

    pid: int
    connection: HTTPConnection
    credential: Callable[[], str]
    costs: dict[Kind, Cost] = field(default_factory=lambda: {kind: Cost() for kind in KINDS})

    def measure(self, kind: Kind, count: int) -> None:
        """Send requests, and keep what they cost."""
        cost, credentials = self.costs[kind], [self.credential() for _ in range(count)]
        before = own_cpu(self.pid)
        seconds = [self.send(kind, credential) for credential in credentials]
        cost.cpu.append(1e3 * (own_cpu(self.pid) - before) / count)
        cost.wall += [1e3 * one for one in seconds]

    def send(self, kind: Kind, credential: str) -> float:
        """Send one request, and return the seconds until its answer was read."""
        headers = {"content-type": "application/json"}
        if credential:
            headers["authorization"] = f"Bearer {credential}"
        body = kind.body
        started = time.perf_counter()
        self.connection.request("POST", "/v1/chat/completions", body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        seconds = time.perf_counter() - started
        assert answer.status == 200, text[:300]
        assert b"word" in text, text[:300]
        return seconds


def variants(provider: Issuer, store: str) -> dict[str, Variant]:
    """The variants by label. The first two are what the others are compared with."""
    identity = (
        f'[identity.corp]\nissuer = "{provider.url}"\naudience = ["{AUDIENCE}"]\ntenant_claim = "tenant"\n'
        "[roles.user]\n"
    )
    shared = f'[quota_store]\naddress = "{store}"\n'
    token = provider.token(exp=int(time.time()) + 86_400)
    return {
        **dict.fromkeys(_BASES, Variant()),
        _FILE: Variant(_FILE_KEY, credential=lambda: _KEY),
        "a key of the ledger": Variant(server="require_keys = true\n", has_ledger_key=True),
        "key, rate and width": Variant(_FILE_KEY + _RATE, credential=lambda: _KEY),
        _MEMORY: Variant(_FILE_KEY + _QUOTAS, credential=lambda: _KEY),
        _VALKEY: Variant(_FILE_KEY + _QUOTAS + shared, credential=lambda: _KEY),
        _TOKEN: Variant(identity, credential=lambda: token),
        _NEW_TOKEN: Variant(identity, credential=lambda: provider.token(jti=uuid.uuid4().hex)),
        _ALL: Variant(
            _FILE_KEY + _RATE + _QUOTAS + shared + identity + _RATE, credential=lambda: token, has_ledger_key=True
        ),
    }


async def create_key(ledger: Path) -> str:
    """Create a key in a new ledger, and return its text."""
    text, record = issue_key("ledger-app", "local", KeyPermissions(), by="lab", expires_at=None, now=time.time())
    async with await open_ledger(str(ledger)) as opened:
        await opened.add_key(record)
    return text


@contextmanager
def gateways(folder: Path, engine: str, named: Mapping[str, Variant], seed: str) -> Generator[dict[str, Gateway]]:
    """Start a gateway for each variant. With the same seed of hashes, as that changes the speed of a process."""
    with ExitStack() as stack:
        started: dict[str, Gateway] = {}
        for number, (label, variant) in enumerate(named.items()):
            ledger, file = folder / f"{number}.db", folder / f"{number}.toml"
            key = asyncio.run(create_key(ledger)) if variant.has_ledger_key else ""
            text = _CONFIG.format(engine=engine, ledger=ledger, server=variant.server, more=variant.config)
            file.write_text(text, encoding="utf-8")
            process = stack.enter_context(
                gateway_process(["--config", str(file)], engine=None, environment={"PYTHONHASHSEED": seed})
            )
            connection = HTTPConnection(urlsplit(process.url).netloc)
            stack.callback(connection.close)
            credential = variant.credential if variant.credential() else lambda key=key: key
            started[label] = Gateway(process.process.pid, connection, credential)
        yield started


def measure_all(starts: int, rounds: int, count: int) -> dict[str, dict[Kind, Cost]]:
    """Measure all variants by turns, `rounds` times in each of `starts` processes that each of them has."""
    measured: dict[str, dict[Kind, Cost]] = {}
    for start in range(starts):
        with (
            tempfile.TemporaryDirectory(prefix="ferrule-admission-") as name,
            issuer() as provider,
            valkey_server(Path(name)) as server,
            upstream() as (engine, _),
            gateways(Path(name), engine, variants(provider, server.address), str(start)) as started,
        ):
            for label, gateway in started.items():
                gateway.costs = measured.setdefault(label, gateway.costs)
            for gateway in started.values():
                for kind in KINDS:
                    for _ in range(_WARMUP):
                        gateway.send(kind, gateway.credential())
            _measure_by_turns(list(started.values()), rounds, count)
    return measured


def _measure_by_turns(started: Sequence[Gateway], rounds: int, count: int) -> None:
    for turn in range(rounds):
        # Each round begins with another one, so that nobody always follows the same neighbour.
        first = turn % len(started)
        for gateway in (*started[first:], *started[:first]):
            for kind in KINDS:
                gateway.measure(kind, count)


def table_of(measured: Mapping[str, Mapping[Kind, Cost]], kind: Kind) -> Table:
    """The figures of one kind of request."""
    base = least_base(measured, kind)
    rows: list[list[str]] = []
    for label, costs in measured.items():
        least, percent = costs[kind].least, added_percent(measured, label, kind)
        within = "" if label in _BASES else "yes" if percent <= TARGET_PERCENT else "no"
        figures = (f"{least:.3f}", f"{least - base:.3f}", f"{percent:.1f}", within, f"{costs[kind].p50:.2f}")
        rows.append([label, *figures])
    columns = ("", "CPU, ms", "added, ms", "added, %", f"within {TARGET_PERCENT:g}%", "p50, ms")
    return Table(f"A plain request, {kind.label}", "", columns, rows)


def least_base(measured: Mapping[str, Mapping[Kind, Cost]], kind: Kind) -> float:
    return min(measured[label][kind].least for label in _BASES)


def added_percent(measured: Mapping[str, Mapping[Kind, Cost]], label: str, kind: Kind) -> float:
    """In percent, with the one decimal that is shown: it decides."""
    return round(100.0 * (measured[label][kind].least / least_base(measured, kind) - 1.0), 1)


def misses(measured: Mapping[str, Mapping[Kind, Cost]]) -> list[str]:
    """A line for each variant that adds more than the aim to any kind of request, with what limits it."""
    lines: list[str] = []
    for label in measured:
        added = [added_percent(measured, label, kind) for kind in KINDS]
        missed = sum(percent > TARGET_PERCENT for percent in added)
        if missed and label not in _BASES:
            reason = f": {_REASONS[label]}" if label in _REASONS else ""
            lines.append(
                f"*{label}* adds more than {TARGET_PERCENT:g}% to {missed} of {len(KINDS)} kinds of requests "
                f"({min(added):.1f}% to {max(added):.1f}%){reason}."
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(
        prog="scripts/long admission-costs", description=(__doc__ or "").partition("\n")[0]
    )
    reader.add_argument("--rounds", type=int, default=15, help="rounds, in which all variants take turns (default: 15)")
    reader.add_argument("--starts", type=int, default=3, help="how often all gateways are started (default: 3)")
    reader.add_argument("--count", type=int, default=25, help="requests of each kind in a round (default: 25)")
    reader.add_argument("--print", action="store_true", help="do not write the tables to the results page")
    options = reader.parse_args(arguments)
    measured = measure_all(options.starts, options.rounds, options.count)
    about = _ABOUT.format(starts=options.starts, rounds=options.rounds, count=options.count)
    tables = [table_of(measured, kind) for kind in KINDS]
    console = Console(width=None if Console().is_terminal else 120)
    for table in tables:
        print_table(table, console)
    listed = "\n".join(f"- {line}" for line in misses(measured)) or f"All are within {TARGET_PERCENT:g}%."
    print(listed)
    if not options.print:
        where = f"{describe_environment(measured_environment())} Load average {os.getloadavg()[0]:.1f}."
        publish(_SECTION, _HEADING, [_COMMAND, where, about, *map(markdown, tables), listed])


if __name__ == "__main__":
    main()
