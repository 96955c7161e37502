"""Count the effects of clients that retry: `scripts/long retries`.

Two gateways on one Postgres, behind a proxy that alternates between them, and an engine that fails before, during or
after the call that it makes, or kills the gateway that asks it. Every client keeps its default settings.
"""

import argparse
import asyncio
import itertools
import json
import re
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from lab.retries.costs import claim_costs
from lab.retries.gateways import Gateways
from lab.retries.proxy import round_robin_proxy
from lab.retries.upstream import FAULTS, KILLS, failing_upstream
from run.ledger_databases import postgres_cluster

CLIENTS: Final[Mapping[str, str]] = {
    "openai_chat": "client-openai",
    "anthropic_messages": "client-anthropic",
    "langchain_openai": "client-langchain",
    "agents_sdk": "client-agents",
    "curl": "",
}
_COMMAND: Final = "```sh\nscripts/setup-clients\nscripts/long retries\n```"
_ABOUT: Final = (
    "Every client has its default settings. For each request the engine fails once, with status 503 or by breaking "
    "off, before or after it calls a tool with side effects, or the gateway that asks it is killed; one kind of fault "
    "lasts for ever. *Answered*: the client got the whole answer. *Clean errors*: it raised an error. *Effects*: "
    "requests whose tool ran; *twice*: more than once."
)
_PATIENCE: Final = 300.0
_WIDTH: Final = 4
"""How many programs of each client run at the same time."""
_LINES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Case:
    number: int
    client: str
    fault: str
    stream: bool

    @property
    def text(self) -> str:
        return f"Pay {self.number}: {self.fault}."


@dataclass(slots=True)
class Results:
    """What every request came to, by client."""

    answered: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    strange: list[str] = field(default_factory=list[str])
    approvals: Counter[str] = field(default_factory=Counter[str])
    """How many approvals each conversation requested."""
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The errors, by fault."""
    effects: Counter[int] = field(default_factory=Counter[int])
    """How often the tool ran for each request."""
    kills: int = 0

    @property
    def twice(self) -> dict[int, int]:
        return {number: times for number, times in self.effects.items() if times > 1}

    cases: dict[int, Case] = field(default_factory=dict[int, Case])

    def add(self, case: Case, outcome: Mapping[str, str]) -> None:
        self.cases[case.number] = case
        if "error" in outcome:
            self.errors[case.client] += 1
            self.kinds[case.fault, _kind(outcome["error"])] += 1
        elif f"Done {case.number}." in outcome.get("answer", "") or "Waiting for approval" in outcome.get("answer", ""):
            self.answered[case.client] += 1
        else:
            self.strange.append(f"{case}: {json.dumps(outcome)[:200]}")


def _kind(error: str) -> str:
    """The kind of an error: its status if it has one."""
    status = re.search(r"\b([45]\d\d)\b", error)
    return status[1] if status else error.split(":", maxsplit=1)[0]


def cases_of(count: int, kills: int) -> list[Case]:
    """So many requests, `kills` of them with a gateway that is killed, spread over the run."""
    combinations = itertools.cycle(itertools.product(CLIENTS, (False, True)))
    faults = [fault for fault in FAULTS if fault not in KILLS]
    kill_every = count // kills if kills else count + 1
    cases: list[Case] = []
    for number in range(count):
        client, stream = next(combinations)
        # The fault changes when every client has met it, whole and streamed.
        turn = number // (2 * len(CLIENTS))
        is_kill = number % kill_every == kill_every - 1
        fault = KILLS[(number // kill_every) % len(KILLS)] if is_kill else faults[turn % len(faults)]
        cases.append(Case(number, client, fault, stream))
    return cases


async def run_cases(cases: list[Case], url: str, results: Results, progress: Progress) -> None:
    task = progress.add_task("requests", total=len(cases))
    queues = {client: [case for case in cases if case.client == client] for client in CLIENTS}

    async def work(client: str) -> None:
        ask = await _program(client, url) if CLIENTS[client] else _curl_of(url)
        while queues[client]:
            case = queues[client].pop(0)
            try:
                async with asyncio.timeout(_PATIENCE):
                    results.add(case, await ask(case))
            except TimeoutError:
                results.strange.append(f"{case}: no answer within {_PATIENCE:.0f} s")
                ask = await _program(client, url) if CLIENTS[client] else _curl_of(url)
            progress.advance(task)

    await asyncio.gather(*(work(client) for client in CLIENTS for _ in range(_WIDTH)))


async def _program(client: str, url: str) -> Any:
    python = CACHE / "venvs" / CLIENTS[client] / "bin" / "python"
    program = str(ROOT / "lab" / "retries" / "client_program.py")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        str(python), program, client, url, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=_LINES
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def ask(case: Case) -> dict[str, str]:
        stdin.write(json.dumps({"text": case.text, "stream": case.stream}).encode() + b"\n")
        await stdin.drain()
        return json.loads(await stdout.readline())

    return ask


def _curl_of(url: str) -> Any:
    async def ask(case: Case) -> dict[str, str]:
        body = {"model": "m", "stream": case.stream, "messages": [{"role": "user", "content": case.text}]}
        process = await asyncio.create_subprocess_exec(
            *("curl", "-sS", "-N", "--retry", "2", "--fail", "-d", json.dumps(body)),
            *("-H", "content-type: application/json", f"{url}/v1/chat/completions"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        text = out.decode()
        if process.returncode or '"error"' in text:
            return {"error": f"curl {process.returncode}: {err.decode()}{text}"[:300]}
        return {"answer": _content(text)}

    return ask


def _content(text: str) -> str:
    """The content of a chat answer, whole or streamed."""
    if not text.startswith("data: ") and not text.startswith(": "):
        return json.loads(text)["choices"][0]["message"]["content"] or ""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return "".join(json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines)


async def approve_all(url: str, results: Results, is_over: asyncio.Event) -> None:
    """Approve whatever waits, as a person would who never says no."""
    while not is_over.is_set():
        # A gateway may be killed: the next one lists the same approvals.
        with suppress(OSError):
            await asyncio.to_thread(_approve_pending, url, results)
        await asyncio.sleep(0.2)


def _approve_pending(url: str, results: Results) -> None:
    with urllib.request.urlopen(f"{url}/v1/approvals?state=pending&limit=100", timeout=_PATIENCE) as answer:
        pending = json.loads(answer.read())["data"]
    for approval in pending:
        request = urllib.request.Request(f"{url}/v1/approvals/{approval['id']}", b'{"approve": true}', method="POST")
        with urllib.request.urlopen(request, timeout=_PATIENCE):
            results.approvals[approval["conversation"]] += 1


def measure(count: int, kills: int, *, approves: bool, console: Console) -> Results:
    """Send the requests and count their effects."""
    results = Results()
    with tempfile.TemporaryDirectory() as folder, postgres_cluster() as cluster:
        gateways = Gateways(Path(folder), f"postgresql://postgres@/postgres?host={cluster}", approves=approves)
        with failing_upstream(gateways.kill) as upstream, gateways.serve(upstream), Progress(console=console) as bars:
            asyncio.run(_run(gateways, cases_of(count, kills), results, bars, approves=approves))
        results.effects = Counter(map(int, gateways.effects.read_text(encoding="utf-8").split()))
        results.kills = gateways.kills + sum(case.fault == "killed in the effect" for case in results.cases.values())
    return results


def table_of(results: Results, *, approves: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    for client in CLIENTS:
        numbers = [case.number for case in results.cases.values() if case.client == client]
        outcomes = (len(numbers), results.answered[client], results.errors[client])
        effects = (
            sum(number in results.effects for number in numbers),
            sum(number in results.twice for number in numbers),
        )
        rows.append((client, *map(str, outcomes), *map(str, effects)))
    total = [str(sum(int(row[column]) for row in rows)) for column in range(1, 6)]
    notes = [f"Gateways were killed {results.kills} times."]
    notes += [f"Errors after '{fault}': {count} x {kind}" for (fault, kind), count in sorted(results.kinds.items())]
    if approves:
        notes.append(f"{results.approvals.total()} approvals were given for {len(results.cases)} requests.")
    notes += [f"Twice: {results.cases[number]}, {times} times" for number, times in results.twice.items()]
    notes += [f"Neither an answer nor an error: {one}" for one in results.strange]
    title = "Effects of clients that retry" + (", with approvals" if approves else "")
    columns = ("client", "requests", "answered", "clean errors", "effects", "twice")
    return Table(title, _ABOUT, columns, (*rows, ("all", *total)), notes=tuple(notes))


async def _run(gateways: Gateways, cases: list[Case], results: Results, bars: Progress, *, approves: bool) -> None:
    async with round_robin_proxy(gateways.ports) as port:
        url, is_over = f"http://127.0.0.1:{port}", asyncio.Event()
        approver = asyncio.ensure_future(approve_all(url, results, is_over)) if approves else None
        try:
            await run_cases(cases, url, results, bars)
        finally:
            is_over.set()
            if approver is not None:
                await approver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many requests (1000)")
    parser.add_argument("--kills", type=int, default=60, help="during how many of them a gateway is killed (60)")
    parser.add_argument("--approved", type=int, default=100, help="how many more with approvals on (100)")
    parser.add_argument("--costs", type=int, default=500, help="how many requests measure the cost of a claim (500)")
    parser.add_argument("--print", action="store_true", help="do not write the page")
    options = parser.parse_args()
    console = Console()
    tables: list[Table] = []
    total_twice = 0
    for count, kills, approves in ((options.count, options.kills, False), (options.approved, 0, True)):
        if count:
            results = measure(count, kills, approves=approves, console=console)
            tables.append(table_of(results, approves=approves))
            print_table(tables[-1], console)
            total_twice += len(results.twice)
    if options.costs:
        tables.append(claim_costs(options.costs))
        print_table(tables[-1], console)
    if not options.print:
        parts = [_COMMAND, describe_environment(measured_environment()), *map(markdown, tables)]
        publish("retries", "Clients that retry", parts)
    if total_twice:
        raise SystemExit(f"{total_twice} effects happened more than once")


if __name__ == "__main__":
    main()
