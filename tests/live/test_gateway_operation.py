"""A gateway as it is run: a real model, real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from http.client import HTTPResponse
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.gateway_process import GatewayProcess, gateway_process
from waiting import eventually

pytestmark = pytest.mark.live

LONG = {"messages": [{"role": "user", "content": "Tell me a very long story."}], "max_tokens": 1500, "stream": True}
SHORT = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}


def asked(gateway: GatewayProcess, path: str, body: dict[str, Any] | None = None) -> HTTPResponse:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    request = urllib.request.Request(f"{gateway.url}{path}", data, headers)
    try:
        return cast(HTTPResponse, urllib.request.urlopen(request, timeout=120))
    except urllib.error.HTTPError as refusal:
        return cast(HTTPResponse, refusal)


def got(gateway: GatewayProcess, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    with asked(gateway, path, body) as answer:
        return answer.status, json.loads(answer.read())


def metrics(gateway: GatewayProcess) -> dict[str, float]:
    """Sums over all labels but the path of the page itself."""
    found: dict[str, float] = {}
    with asked(gateway, "/metrics") as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            for sample in family.samples:
                if sample.labels.get("api") != "/metrics":
                    found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def lines(gateway: GatewayProcess, event: str) -> list[dict[str, Any]]:
    read = [line for line in gateway.log.read_text(errors="replace").splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, read) if line["event"] == event]


def test_an_answer_under_way_ends_when_the_gateway_is_told_to_stop_and_the_process_ends_in_order() -> None:
    with gateway_process() as gateway:
        assert got(gateway, "/healthz") == (200, {"status": "alive"})
        assert got(gateway, "/readyz")[1]["status"] == "ready"
        with asked(gateway, "/v1/chat/completions", {**LONG, "max_tokens": 120}) as answer:
            first = answer.readline()
            gateway.process.send_signal(signal.SIGTERM)
            eventually(lambda: bool(lines(gateway, "drain")))
            said = first + answer.read()
        assert gateway.process.wait(60) == 0
    assert said.endswith(b"data: [DONE]\n\n")
    assert b'"error"' not in said
    (line,) = lines(gateway, "request")
    assert (line["status"], line["outcome"], line["completion_tokens"] > 0) == (200, "ok", True)
    assert lines(gateway, "drained")[0]["count"] == 0


def test_an_answer_that_takes_too_long_to_end_is_cut_off_with_an_error_that_says_to_ask_again() -> None:
    with gateway_process(environment={"FERRULE_SERVER_DRAIN_SECONDS": "0.3"}) as gateway:
        with asked(gateway, "/v1/chat/completions", LONG) as answer:
            first = answer.readline()
            gateway.process.send_signal(signal.SIGTERM)
            said = first + answer.read()
        assert gateway.process.wait(60) == 0
    told = [json.loads(one) for one in said.decode().split("data: ") if one.startswith("{")]
    assert told[-1]["error"]["code"] == "draining"
    assert lines(gateway, "request")[0]["outcome"] == "draining"


def test_a_killed_worker_is_started_again_while_the_other_answers_and_no_count_goes_down() -> None:
    with gateway_process(["--workers", "2"]) as gateway:
        eventually(lambda: len(lines(gateway, "start")) == 2)
        for _ in range(4):
            assert got(gateway, "/v1/chat/completions", SHORT)[0] == 200
        eventually(lambda: metrics(gateway)["ferrule_tokens_total"] == _tokens(gateway))
        before = metrics(gateway)
        assert before["ferrule_workers"] == 2
        os.kill(lines(gateway, "worker_started")[-1]["pid"], signal.SIGKILL)
        for _ in range(4):
            assert got(gateway, "/v1/chat/completions", SHORT)[0] == 200
        eventually(lambda: len(lines(gateway, "start")) == 3)
        eventually(lambda: metrics(gateway)["ferrule_tokens_total"] == _tokens(gateway))
        after = metrics(gateway)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0
    assert after["ferrule_workers"] == 2
    assert after["ferrule_requests_total"] >= before["ferrule_requests_total"] + 4
    assert after["ferrule_answer_seconds_count"] == 8
    assert len(lines(gateway, "worker_died")) == 1
    assert len(lines(gateway, "stop")) == 2


def _tokens(gateway: GatewayProcess) -> int:
    """By the log, which every worker writes itself."""
    return sum(
        line["prompt_tokens"] + line["completion_tokens"] for line in lines(gateway, "request") if "model" in line
    )
