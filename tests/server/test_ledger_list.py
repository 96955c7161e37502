"""A gateway whose ledger is a list of databases: how it is configured, and what it reports of them."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest

import ferrule.ledger
from cli.command_line import run
from ferrule.core.context import Principal
from ferrule.server.config.config import Config
from ferrule.server.config.loader import parse_config
from ferrule.server.observability.health import summary_of
from server.gateway_process import ANN, gateway_with_config
from server.keys import key
from waiting import eventually

ENGINE = '[engines.e0]\nuse = "fake:Hello."\n'


def config_of(setting: str = "", environment: dict[str, str] | None = None) -> Config:
    return parse_config(f"{ENGINE}[server]\n{setting}", "ferrule.toml", environment or {}).config


def test_a_ledger_is_one_address_or_a_list() -> None:
    assert config_of().ledger_addresses == ()
    assert config_of('ledger = "a.db"').ledger == "a.db"
    # A list of one is not the same: it looks where tenants are.
    assert config_of('ledger = ["a.db"]').ledger == ("a.db",)
    assert config_of('ledger = ["a.db", "b.db"]').ledger_addresses == ("a.db", "b.db")
    variable = "FERRULE_SERVER_LEDGER"
    # An address of Postgres may name several hosts.
    assert config_of(environment={variable: "postgresql://a,b/x"}).ledger_addresses == ("postgresql://a,b/x",)
    assert config_of(environment={variable: '["a.db", "b.db"]'}).ledger_addresses == ("a.db", "b.db")
    for wrong in ("ledger = 3", "ledger = [3]", "ledger_connections = 0"):
        with pytest.raises(ferrule.DefinitionError):
            config_of(wrong)


def test_the_state_of_several_databases_is_one_text() -> None:
    assert summary_of(["answers"]) == "answers"
    assert summary_of(["answers", "answers"]) == "answers"
    assert summary_of(["fails", "fails"]) == "fails"
    assert summary_of(["answers", "is silent", "fails"]) == "1 of 3 answer"


def test_a_gateway_with_a_database_that_is_away_says_which(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        away = f"postgresql://nobody@127.0.0.1:{server.getsockname()[1]}/none"
    ledgers = json.dumps([str(tmp_path / "a.db"), away])
    key_lines = f'[keys.{ANN}]\nsha256 = "{key(ANN).sha256}"\nadmin = true\n'
    with gateway_with_config(
        tmp_path, f"{ENGINE}[server]\nport = 0\nledger = {ledgers}\nmetrics_open = true\n{key_lines}"
    ) as gateway:
        status, ready = gateway.request("GET", "/readyz")
        assert (status, ready["ledger"]) == (200, "1 of 2 answer")
        page = gateway.text("/metrics")
        assert 'ferrule_ledger_well{database="1"} 1.0' in page
        assert 'ferrule_ledger_well{database="2"} 0.0' in page


def test_commands_take_the_databases_of_a_ledger_in_their_order(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.db", "b.db")]
    options = [option for path in paths for option in ("--ledger", path)]

    async def fill() -> None:
        async with ferrule.ledger.open(paths) as ledger:
            for number in range(8):
                await ledger.open(f"c{number}", Principal("ann", f"t{number}"), "one", 10, now=0)

    asyncio.run(fill())
    for number in range(8):
        ran = run("audit", f"c{number}", *options, "--json")
        assert ran.code == 0
        assert f"c{number}" in ran.out
    wrong = [option for path in reversed(paths) for option in ("--ledger", path)]
    assert "was number" in run("audit", "c0", *wrong).err


def test_requests_of_tenants_whose_database_answers_are_recorded_while_another_is_away(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        away = f"postgresql://nobody@127.0.0.1:{server.getsockname()[1]}/none"
    tenants = [f"tenant-{number}" for number in range(12)]
    ledgers = json.dumps([str(tmp_path / "a.db"), away])
    keys = "".join(f'[keys.{one}]\nsha256 = "{key(one).sha256}"\ntenant = "{one}"\n' for one in tenants)
    body = {"messages": [{"role": "user", "content": "Hello."}], "ferrule": {"tools": "none"}}
    with gateway_with_config(tmp_path, f"{ENGINE}[server]\nport = 0\nledger = {ledgers}\n{keys}") as gateway:

        def traces(tenant: str) -> int:
            status, answer = gateway.request("GET", "/v1/traces", who=tenant)
            return len(answer["data"]) if status == 200 else -1

        for _ in range(2):
            for tenant in tenants:
                # It keeps nothing, so it needs no database.
                assert gateway.request("POST", "/v1/chat/completions", body, tenant)[0] == 200
        served = [tenant for tenant in tenants if traces(tenant) >= 0]
        assert 0 < len(served) < len(tenants)
        eventually(lambda: all(traces(tenant) > 0 for tenant in served))
        # Those of the others wait until it is back.
        assert {traces(tenant) for tenant in tenants if tenant not in served} == {-1}
