"""Quotas over processes, from outside: two gateways with two workers each, a real store, and the vendors' clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lab.gateway_clients import clients
from live.valkey_server import ValkeyServer, valkey_server
from server.gateway_process import ANN, EVE, GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

pytestmark = pytest.mark.live

CHAT = {"model": "e0", "messages": [{"role": "user", "content": "hello"}]}
WORKERS = 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ValkeyServer]:
    with valkey_server(tmp_path) as server:
        yield server


def configuration(store: str, quotas: str, folder: Path, more: str = "") -> str:
    tools = folder / "tools.py"
    tools.write_text(
        "from pathlib import Path\nfrom ferrule import tool\n\n\n"
        "@tool(side_effects=True)\ndef pay(amount: int) -> str:\n"
        f'    "Pays."\n    Path({str(folder)!r}, f"paid-{{amount}}").touch()\n    return "paid"\n'
    )
    keys = [f'[keys.{name}]\nsha256 = "{key(name).sha256}"\ntenant = "{name}"\ntools = ["*"]' for name in (ANN, EVE)]
    return "\n".join(
        [
            '[engines.e0]\nuse = "fake:Hello."',
            f'[server]\nport = 0\nworkers = {WORKERS}\ndrain_seconds = 1\nledger = "{folder / "ledger.db"}"',
            f'[sources]\nfunctions = ["{tools}"]',
            "[tools]\ntools_require_confirmation_for_side_effects = false",
            f'[quota_store]\naddress = "{store}"\n{more}',
            quotas,
            *keys,
        ]
    )


def two_gateways(stack: ExitStack, folder: Path, text: str) -> list[GatewayProcess]:
    folders = [folder / "one", folder / "two"]
    for one in folders:
        one.mkdir()
    return [stack.enter_context(gateway_with_config(one, text)) for one in folders]


def test_two_gateways_of_two_workers_admit_exactly_as_many_requests_as_a_quota_says(
    store: ValkeyServer, tmp_path: Path
) -> None:
    quotas = '[quotas.day]\ncounts = "requests"\nmost = 50\nper = "day"'
    with ExitStack() as stack:
        gateways = two_gateways(stack, tmp_path, configuration(store.address, quotas, tmp_path))
        threads = stack.enter_context(ThreadPoolExecutor(16))

        def ask(number: int) -> int:
            who = ANN if number % 4 else EVE
            status, _ = gateways[number % 2].request("POST", "/v1/chat/completions", CHAT, who)
            return status if who == ANN else status + 1000

        counts = Counter(threads.map(ask, range(160)))
        # 120 requests of the one key, of which 50 fit; all 40 of the other.
        assert counts == {200: 50, 429: 70, 1200: 40}


def test_effects_are_counted_over_processes_and_none_is_lost_or_run_beyond_the_quota(
    store: ValkeyServer, tmp_path: Path
) -> None:
    quotas = '[quotas.payments]\ncounts = "effects"\nmost = 20\nper = "day"\neach = "tenant"\ntools = ["pay"]'
    with ExitStack() as stack:
        gateways = two_gateways(stack, tmp_path, configuration(store.address, quotas, tmp_path))
        threads = stack.enter_context(ThreadPoolExecutor(8))

        def pay(number: int) -> bool:
            status, body = gateways[number % 2].call("pay", amount=number)
            assert status == 200, body
            assert body["is_error"] == ("quota_exceeded" in str(body["content"])), body
            return not body["is_error"]

        paid = sum(threads.map(pay, range(60)))
        assert paid == len([*tmp_path.glob("paid-*")]) == 20


@pytest.mark.parametrize("when_away, expected", [("divide", {200, 429}), ("refuse", {503})])
def test_a_store_that_dies_is_replaced_by_parts_or_refuses_and_is_used_again(
    store: ValkeyServer, tmp_path: Path, when_away: str, expected: set[int]
) -> None:
    quotas = '[quotas.day]\ncounts = "requests"\nmost = 40\nper = "day"'
    text = configuration(store.address, quotas, tmp_path, f'when_away = "{when_away}"\nreplicas = 2')
    with ExitStack() as stack:
        first, second = two_gateways(stack, tmp_path, text)

        def statuses(count: int) -> list[int]:
            gateways = [first, second]
            return [gateways[n % 2].request("POST", "/v1/chat/completions", CHAT)[0] for n in range(count)]

        assert statuses(6) == [200] * 6
        store.stop()
        while_away = statuses(60)
        assert set(while_away) == expected
        # Four processes count ten each, whichever of them answers.
        assert while_away.count(200) <= 40
        reported = [
            line for gateway in (first, second) for line in gateway.lines() if line["event"] == "quota_store_failed"
        ]
        assert reported
        store.start()
        # It comes back empty. Each process asks it again within a second, one after the other.
        eventually(lambda: 200 in statuses(2) and bool(store.keys()))


def test_the_vendors_clients_read_a_refusal_as_their_own_rate_limit(store: ValkeyServer, tmp_path: Path) -> None:
    quotas = '[quotas.day]\ncounts = "requests"\nmost = 1\nper = "day"'
    with ExitStack() as stack:
        (tmp_path / "one").mkdir()
        text = configuration(store.address, quotas, tmp_path)
        gateway = stack.enter_context(gateway_with_config(tmp_path / "one", text))
        sdk = stack.enter_context(clients())

        def ask(client: str, function: str, who: str) -> dict[str, Any]:
            return sdk.ask(client, function, {"url": gateway.url, "key": who, "model": "e0"})

        assert not ask("openai", "live_openai.chat_chunks", ANN).get("error")
        refused = ask("openai", "live_openai.chat_create", ANN)["error"]
        assert refused.startswith("RateLimitError: Error code: 429"), refused
        assert "has used up the quota 'day'" in refused
        assert not ask("anthropic", "live_anthropic.create", EVE).get("error")
        refused = ask("anthropic", "live_anthropic.create", EVE)["error"]
        assert refused.startswith("RateLimitError: Error code: 429"), refused
