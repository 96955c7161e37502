"""Two Postgres servers for one ledger, two gateways, twenty tenants at work, one server stopped and started again.

Clients send a call again with the same id until it is answered, in turn to each gateway, as real clients do.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from run.ledger_databases import postgres_cluster, start_postgres, stop_postgres
from server.gateway_process import GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

pytestmark = pytest.mark.live
TENANTS = [f"tenant-{number}" for number in range(20)]
LATER = [f"later-{number}" for number in range(12)]
CALLS = 3
"""How many calls each tenant must have made in each phase."""
TOOL = '''
from pathlib import Path

from ferrule import tool

@tool(side_effects=True)
def pay(line: str) -> str:
    """Pays."""
    with Path({file!r}).open("a") as out:
        out.write(line + "\\n")
    return "paid " + line
'''


@dataclass(slots=True)
class Client:
    """The only client of a tenant. It makes one call after the other, and repeats each until it is answered."""

    tenant: str
    gateways: Sequence[GatewayProcess]
    done: Counter[str] = field(default_factory=Counter[str])
    errors: list[tuple[str, int, Any]] = field(default_factory=list[tuple[str, int, Any]])
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    tries: int = 0
    phase: str = "before"
    is_stopped: bool = False

    def run(self) -> None:
        number = 0
        while not self.is_stopped:
            number += 1
            phase, line = self.phase, f"{self.tenant}/{number}"
            while not self.is_stopped:
                self.tries += 1
                gateway = self.gateways[self.tries % len(self.gateways)]
                body = {"name": "pay", "arguments": {"line": line}, "call_id": line, "conversation": self.tenant}
                status, answer = gateway.request("POST", "/v1/tools/call", body, self.tenant)
                is_unknown = status == 502 and answer["error"]["message"].startswith("unknown")
                if status == 200 or is_unknown:
                    # One that may have run is not run again, and this is its answer.
                    self.results[line] = answer
                    self.done[phase] += 1
                    break
                self.errors.append((self.phase, status, answer))


@contextmanager
def gateway(folder: Path, ledgers: Sequence[str], tenants: Sequence[str], tools: Path) -> Generator[GatewayProcess]:
    folder.mkdir()
    config = [
        '[engines.e0]\nuse = "fake:Hello."',
        f"[server]\nport = 0\nlease_seconds = 2\nledger = {json.dumps(list(ledgers))}\nledger_connections = 2",
        "[tools]\ntools_require_confirmation_for_side_effects = false",
        f'[sources]\nfunctions = ["{tools}"]',
        *(
            f'[keys.{name}]\nsha256 = "{key(name).sha256}"\ntenant = "{name}"\ntools = ["*"]\nadmin = true'
            for name in tenants
        ),
    ]
    with gateway_with_config(folder, "\n".join(config)) as one:
        yield one


@contextmanager
def at_work(clients: Sequence[Client]) -> Generator[None]:
    threads = [threading.Thread(target=one.run) for one in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in clients:
            one.is_stopped = True
        for thread in threads:
            thread.join()


def tenants_in(address: str) -> set[str]:
    with psycopg.connect(address) as connection:
        return {tenant for (tenant,) in connection.execute("SELECT DISTINCT tenant FROM ferrule_conversation")}


def test_one_of_two_databases_stops_only_its_own_tenants_and_no_effect_happens_twice(tmp_path: Path) -> None:
    effects, tools = tmp_path / "effects", tmp_path / "tools.py"
    effects.touch()
    tools.write_text(TOOL.format(file=str(effects)), encoding="utf-8")
    with ExitStack() as stack:
        clusters = [stack.enter_context(postgres_cluster()) for _ in range(3)]
        ledgers = [f"postgresql://postgres@/postgres?host={cluster}" for cluster in clusters]
        gateways = [
            stack.enter_context(gateway(tmp_path / f"gateway-{number}", ledgers[:2], TENANTS, tools))
            for number in range(2)
        ]
        clients = [Client(tenant, gateways) for tenant in TENANTS]
        with at_work(clients):
            eventually(lambda: all(one.done["before"] >= CALLS for one in clients))
            homes = [tenants_in(address) for address in ledgers[:2]]
            assert homes[0] | homes[1] == {*TENANTS}
            assert not homes[0] & homes[1]
            assert min(map(len, homes)) >= 3
            stop_postgres(clusters[1])
            # A call that was on its way may still have been answered by the server that is gone.
            for one in clients:
                one.phase = "stopped"
            try:
                eventually(
                    lambda: all(
                        len(one.errors) >= CALLS if one.tenant in homes[1] else one.done["stopped"] >= CALLS
                        for one in clients
                    )
                )
                for one in gateways:
                    assert one.request("GET", "/readyz", who=TENANTS[0])[1]["ledger"] == "1 of 2 answer"
            finally:
                start_postgres(clusters[1])
            for one in clients:
                one.phase = "started"
            eventually(lambda: all(one.done["started"] >= CALLS for one in clients))
            errors_until_now = [(one.tenant, error) for one in clients for error in one.errors]

            # A gateway with a third database comes beside the others. Old tenants go on, new ones are spread.
            everyone = [*TENANTS, *LATER]
            third = stack.enter_context(gateway(tmp_path / "gateway-2", ledgers, everyone, tools))
            later = [Client(tenant, [third]) for tenant in LATER]
            for one in clients:
                one.phase, one.gateways = "added", [*gateways, third]
            with at_work(later):
                eventually(lambda: all(one.done["added"] >= CALLS for one in clients))
                eventually(lambda: all(one.done["before"] >= CALLS for one in later))
        after = [tenants_in(address) for address in ledgers]
        assert [homes[0], homes[1], set()] == [{*TENANTS} & one for one in after]
        assert after[2]
        assert sum(map(len, after)) == len(everyone)

    # Only the tenants of the stopped server saw errors, and each of them may be retried.
    assert {tenant for tenant, _ in errors_until_now} == homes[1]
    for _, (_, status, answer) in errors_until_now:
        assert (status, answer["error"]["code"]) == (503, "ledger_unavailable"), answer
    assert [one.errors for one in clients if one.tenant in homes[0]] == [[]] * len(homes[0])
    # No effect happened twice, and each that was reported as done has happened.
    happened = Counter(effects.read_text().split())
    assert max(happened.values()) == 1
    unknown = 0
    for one in [*clients, *later]:
        for line, answer in one.results.items():
            is_paid = "error" not in answer and f"paid {line}" in json.dumps(answer)
            unknown += not is_paid
            assert happened[line] == 1 or not is_paid, answer
    errors = Counter(status for one in clients for _, status, _ in one.errors)
    calls = sum(len(one.results) for one in [*clients, *later])
    print(f"\n{calls} calls, {sum(happened.values())} effects, {unknown} calls unknown; errors: {dict(errors)}")
