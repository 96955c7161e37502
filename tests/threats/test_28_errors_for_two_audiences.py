"""Row 28: callers learn nothing of an engine's address, answer or keys, and operators find the cause by the IDs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from run.ledger_databases import postgres_cluster, postgres_database, start_postgres, stop_postgres
from server.failing_upstream import (
    ENGINE_KEY,
    FAILURES,
    HOST,
    SECRET,
    WORDS,
    closed_url,
    engine_config,
    failing_upstream,
)
from server.gateway_process import GatewayProcess, gateway_with_config
from server.keys import key
from waiting import PATIENCE, eventually

USER = "ann-without-admin"
MODELS = (*FAILURES, "unreachable")
TOOL_MODELS = ("calls_tool", "fails_after_tool")
# The status of an answer that has not begun. The others begin: their error is inside the stream.
STATUSES: Mapping[str, int] = {
    "bad": 400,
    "long": 400,
    "large": 400,
    "unprocessable": 400,
    "unauthorized": 502,
    "forbidden": 502,
    "missing": 404,
    "limited": 429,
    "broken": 502,
    "gateway": 502,
    "overloaded": 503,
    "unreachable": 503,
    "silent": 504,
    "reported": 502,
    "cut_at_once": 502,
}
TOOLS = f'''
from ferrule import tool

@tool
def explode() -> str:
    """Explodes."""
    raise RuntimeError("{WORDS} {SECRET} {HOST}")
'''


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def id(self) -> str:
        return self.headers["x-request-id"]


def request_of(api: str, model: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "Hello."}]
    common: dict[str, Any] = {"model": model, "stream": stream}
    if model not in TOOL_MODELS:
        common["ferrule"] = {"tools": "none"}
    match api:
        case "chat":
            return "/v1/chat/completions", {**common, "messages": messages}
        case "messages":
            return "/v1/messages", {**common, "messages": messages, "max_tokens": 50}
        case _:
            return "/v1/responses", {**common, "input": "Hello.", "store": api == "stored"}


WAYS = list(product(("chat", "messages", "responses", "stored"), (False, True)))


def send(gateway: GatewayProcess, api: str, model: str, *, stream: bool) -> Answer:
    path, body = request_of(api, model, stream=stream)
    headers = {"authorization": f"Bearer {USER}", "content-type": "application/json"}
    request = urllib.request.Request(gateway.url + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return Answer(answer.status, dict(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read().decode())


def config_of(folder: Path, url: str, ledger: str) -> str:
    tools = folder / "tools.py"
    tools.write_text(TOOLS, encoding="utf-8")
    engines = [engine_config(name, url, *(["first=0.5"] if name == "silent" else [])) for name in FAILURES]
    engines += [engine_config(name, url) for name in ("well", *TOOL_MODELS)]
    engines.append(engine_config("unreachable", closed_url()))
    return "\n".join(
        [
            *engines,
            f'[server]\nport = 0\nledger = "{ledger}"',
            f'[sources]\nfunctions = ["{tools}"]',
            f'[keys.{USER}]\nsha256 = "{key(USER).sha256}"\nmodels = ["*"]\ntools = ["*"]',
        ]
    )


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with (
        failing_upstream() as url,
        gateway_with_config(folder, config_of(folder, url, str(folder / "ledger.db"))) as process,
    ):
        yield process


def assert_says_nothing(answer: Answer, *more: str) -> None:
    shown = answer.text + str(answer.headers)
    for secret in (HOST, SECRET, WORDS, ENGINE_KEY, "127.0.0.1", "localhost", "/v1/chat/completions", *more):
        assert secret not in shown, (secret, shown)


def lines_of(gateway: GatewayProcess, field: str, value: str) -> list[dict[str, Any]]:
    return [line for line in gateway.lines() if line.get(field) == value]


def cause_of(gateway: GatewayProcess, answer: Answer) -> dict[str, Any]:
    """The line with the cause, found by the request's ID and by its conversation's."""

    def causes() -> list[dict[str, Any]]:
        return [line for line in lines_of(gateway, "id", answer.id) if "detail" in line]

    eventually(lambda: bool(causes()))
    (cause,) = causes()
    assert cause in lines_of(gateway, "conversation", cause["conversation"])
    # The line of the request, or of an answer that ran on its own, has both IDs too.
    eventually(
        lambda: any(
            line["event"] in ("request", "answer") and line["id"] == answer.id
            for line in lines_of(gateway, "conversation", cause["conversation"])
        )
    )
    return cause


@pytest.mark.parametrize("model", MODELS)
def test_a_caller_sees_no_cause_and_the_log_has_it_by_both_ids(gateway: GatewayProcess, model: str) -> None:
    with ThreadPoolExecutor(len(WAYS)) as pool:
        answers = list(pool.map(lambda way: send(gateway, way[0], model, stream=way[1]), WAYS))
    for (api, stream), answer in zip(WAYS, answers, strict=True):
        assert_says_nothing(answer)
        # A stored response is created before the engine is asked.
        if model in STATUSES and api != "stored" and (api != "responses" or not stream or answer.status != 200):
            assert answer.status == STATUSES[model], (api, stream, answer)
            assert answer.id in answer.text or model == "long"
        cause = cause_of(gateway, answer)
        assert cause["engine"] == model
        assert SECRET not in str(cause)
        assert ENGINE_KEY not in str(cause)
        if model in ("bad", "broken", "reported", "reported_late", "limited"):
            assert WORDS in cause["detail"], cause
            assert HOST in cause["detail"], cause


def test_a_rejected_request_names_the_field_and_a_limit_the_seconds(gateway: GatewayProcess) -> None:
    rejected = json.loads(send(gateway, "chat", "bad", stream=False).text)["error"]
    assert (rejected["code"], rejected["param"]) == ("request_rejected", "temperature")
    assert json.loads(send(gateway, "chat", "long", stream=False).text)["error"]["code"] == "context_length_exceeded"
    limited = send(gateway, "chat", "limited", stream=False)
    assert (limited.headers["retry-after"], limited.headers["x-should-retry"]) == ("7", "true")
    for model in ("bad", "unauthorized", "missing"):
        assert send(gateway, "messages", model, stream=False).headers["x-should-retry"] == "false"


@pytest.mark.parametrize("api, stream", WAYS)
def test_a_tool_that_raises_shows_its_type_and_the_log_has_the_place(
    gateway: GatewayProcess, api: str, stream: bool
) -> None:
    answer = send(gateway, api, "calls_tool", stream=stream)
    assert answer.status == 200
    assert_says_nothing(answer)

    def places() -> list[dict[str, Any]]:
        return [line for line in lines_of(gateway, "id", answer.id) if line["event"] == "library"]

    eventually(lambda: bool(places()))
    (line,) = places()
    assert "builtins.RuntimeError" in line["kinds"]
    assert line in lines_of(gateway, "conversation", line["conversation"])


@pytest.mark.parametrize("api, stream", WAYS)
def test_an_engine_that_fails_after_a_tool_ran_says_nothing_either(
    gateway: GatewayProcess, api: str, stream: bool
) -> None:
    answer = send(gateway, api, "fails_after_tool", stream=stream)
    assert_says_nothing(answer)
    assert cause_of(gateway, answer)["upstream_status"] == 500


def test_a_ledger_that_is_gone_says_nothing_and_is_found_in_the_log(tmp_path: Path) -> None:
    with failing_upstream() as url, postgres_cluster() as cluster:
        ledger = postgres_database(cluster).where
        with gateway_with_config(tmp_path, config_of(tmp_path, url, ledger)) as gateway:
            stop_postgres(cluster)
            try:
                for api, stream in WAYS:
                    answer = send(gateway, api, "calls_tool", stream=stream)
                    assert answer.status == 503, answer
                    assert json.loads(answer.text)["error"]["message"].startswith("the ledger cannot be reached")
                    assert_says_nothing(answer, str(cluster), "postgres", "socket")
                    (line,) = [one for one in lines_of(gateway, "id", answer.id) if "detail" in one]
                    assert line["detail"].startswith("the ledger's database: ")
            finally:
                start_postgres(cluster)
