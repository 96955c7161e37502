"""A gateway whose engines and ledger fail in part serves everything that does not need them, and stays ready."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from run.ledger_databases import postgres_cluster, postgres_database, start_postgres, stop_postgres
from server.failing_upstream import POISON, closed_url, engine_config, failing_upstream
from server.gateway_process import ANN, GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

CHAT = "/v1/chat/completions"
REQUESTS = 40
TOOL = '''
from ferrule import tool

@tool
def look() -> str:
    """Looks."""
    return "seen"
'''


@contextmanager
def gateway_of(folder: Path, ledger: str) -> Generator[GatewayProcess]:
    """Three models: one whose engine is dead, one whose engine fails for one prompt, and one that is well."""
    tools = folder / "tools.py"
    tools.write_text(TOOL, encoding="utf-8")
    with failing_upstream() as url:
        config = [
            engine_config("dead", closed_url()),
            *(engine_config(name, url) for name in ("poisoned", "well", "calls_tool")),
            f'[server]\nport = 0\nledger = "{ledger}"',
            f'[sources]\nfunctions = ["{tools}"]',
            f'[keys.{ANN}]\nsha256 = "{key(ANN).sha256}"\ntools = ["*"]\nadmin = true',
        ]
        with gateway_with_config(folder, "\n".join(config)) as gateway:
            yield gateway


def chat(gateway: GatewayProcess, model: str, text: str = "Hello.", **more: Any) -> tuple[int, Any]:
    messages = [{"role": "user", "content": text}]
    body = {"model": model, "messages": messages, "ferrule": {"tools": "none"}, **more}
    return gateway.request("POST", CHAT, body)


def states(gateway: GatewayProcess) -> dict[str, str]:
    return {one["engine"]: one["state"] for one in gateway.request("GET", "/v1/engines")[1]["data"]}


@contextmanager
def watched_readiness(gateway: GatewayProcess) -> Generator[list[int]]:
    """Probe `/readyz` all the time, and collect its statuses."""
    statuses: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            statuses.append(gateway.request("GET", "/readyz")[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield statuses
    finally:
        ended.set()
        watcher.join()


def test_one_dead_engine_and_one_bad_prompt_stop_nothing_else(tmp_path: Path) -> None:
    with gateway_of(tmp_path, str(tmp_path / "ledger.db")) as gateway:
        # Shown and logged before anybody has asked for it.
        assert states(gateway)["dead"] == "resting"
        probes = {line["engine"]: line["outcome"] for line in gateway.lines() if line["event"] == "engine_probe"}
        assert probes["dead"] == "engine_unavailable"
        assert probes["well"] == "ok"
        with watched_readiness(gateway) as readiness:
            for number in range(REQUESTS):
                assert chat(gateway, "dead")[0] == 503
                assert chat(gateway, "poisoned", POISON)[0] == 502
                assert states(gateway)["poisoned"] == "ready"
                assert chat(gateway, "poisoned", f"Hello {number}.")[0] == 200
                assert chat(gateway, "well")[0] == 200
        assert set(readiness) == {200}
        status = gateway.request("GET", "/readyz")[1]
        assert (status["engines"]["of"] - status["engines"]["well"], status["status"]) == (1, "ready")


def test_a_stopped_ledger_stops_only_what_keeps_something(tmp_path: Path) -> None:
    with postgres_cluster() as cluster, gateway_of(tmp_path, postgres_database(cluster).where) as gateway:
        stop_postgres(cluster)
        try:
            with watched_readiness(gateway) as readiness:
                for stream in (False, True) * 10:
                    status, answer = raw_chat(gateway, "well", stream=stream)
                    assert (status, "All is well." in answer) == (200, True)
                    body = {"model": "well", "input": "Hello.", "store": False, "ferrule": {"tools": "none"}}
                    assert gateway.request("POST", "/v1/responses", body)[0] == 200
                    # It keeps its calls: it is refused before the engine is asked.
                    status, error = gateway.request(
                        "POST", CHAT, {"model": "calls_tool", "messages": [{"role": "user", "content": "Hi."}]}
                    )
                    assert (status, error["error"]["code"]) == (503, "ledger_unavailable")
                    assert gateway.request("POST", "/v1/responses", {**body, "store": True})[0] == 503
            assert set(readiness) == {200}
            assert gateway.request("GET", "/readyz")[1]["ledger"] == "fails"
            assert not [line for line in gateway.lines() if "calls" in line]
        finally:
            start_postgres(cluster)


def test_a_gateway_starts_without_its_ledger_and_uses_it_when_it_comes(tmp_path: Path) -> None:
    with postgres_cluster() as cluster:
        ledger = postgres_database(cluster).where
        keeps = {"model": "calls_tool", "messages": [{"role": "user", "content": "Hi."}]}
        stop_postgres(cluster)
        try:
            with gateway_of(tmp_path, ledger) as gateway:
                # The sweep for unfinished responses is the first that needs it.
                eventually(lambda: any(line.get("outcome") == "ledger_unavailable" for line in gateway.lines()))
                assert gateway.request("GET", "/readyz")[0] == 200
                assert chat(gateway, "well")[0] == 200
                assert gateway.request("POST", CHAT, keeps)[0] == 503
                start_postgres(cluster)
                try:
                    assert gateway.request("POST", CHAT, keeps)[0] == 200
                finally:
                    stop_postgres(cluster)
        finally:
            start_postgres(cluster)


def raw_chat(gateway: GatewayProcess, model: str, *, stream: bool) -> tuple[int, str]:
    """The status and the whole text, also of a stream."""
    messages = [{"role": "user", "content": "Hello."}]
    body = {"model": model, "messages": messages, "ferrule": {"tools": "none"}, "stream": stream}
    headers = {"authorization": f"Bearer {ANN}", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(gateway.url + CHAT, json.dumps(body).encode(), headers)) as got:
        return got.status, got.read().decode()
