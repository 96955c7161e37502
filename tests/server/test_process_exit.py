"""A gateway that gets SIGTERM ends, whatever its tools and libraries still do."""

from __future__ import annotations

import signal
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from lab import guest_tools
from server.gateway_process import ANN, GatewayProcess, gateway_process
from waiting import MOMENT, eventually

TOOLS = Path(guest_tools.__file__)


def stop(gateway: GatewayProcess) -> int:
    gateway.process.send_signal(signal.SIGTERM)
    return gateway.process.wait(MOMENT)


def test_tools_that_exit_do_not_end_the_gateway(tmp_path: Path) -> None:
    with gateway_process(tmp_path, TOOLS) as gateway:
        for name in ("leave", "leave_async") * 2:
            status, body = gateway.call(name, code=0)
            assert (status, body["is_error"], body["code"]) == (200, True, "tool_failed")
        assert gateway.call("look", place="Rome")[1]["content"] == "seen Rome"
        assert stop(gateway) == 0


@pytest.mark.parametrize("name", ["hang", "spin", "start_thread"])
def test_hung_threads_do_not_hold_up_the_end_of_the_process(name: str, tmp_path: Path) -> None:
    with gateway_process(tmp_path, TOOLS) as gateway:
        for _ in range(2):
            gateway.call(name)
        hung = 0 if name == "start_thread" else 2
        eventually(lambda: gateway.request("GET", "/readyz")[1]["tools"] == {"hung": hung})
        assert gateway.request("GET", "/readyz")[1]["status"] == "ready"
        assert stop(gateway) == 0
        assert "stop" in {line["event"] for line in gateway.lines()}


@pytest.mark.parametrize("name", ["block", "stay"])
def test_a_tool_that_blocks_the_event_loop_or_its_cancellation_does_not_hold_up_the_end(
    name: str, tmp_path: Path
) -> None:
    with gateway_process(tmp_path, TOOLS, tool_seconds=0.2) as gateway:
        threading.Thread(target=call_and_ignore, args=(gateway, name), daemon=True).start()
        if name == "block":
            eventually(lambda: not is_answering(gateway))
        else:
            eventually(lambda: "ferrule_requests_open 2.0" in metrics(gateway))
        assert stop(gateway) in (0, 1)


def call_and_ignore(gateway: GatewayProcess, name: str) -> None:
    with suppress(OSError):
        gateway.call(name)


def metrics(gateway: GatewayProcess) -> str:
    request = urllib.request.Request(f"{gateway.url}/metrics", headers={"authorization": f"Bearer {ANN}"})
    with urllib.request.urlopen(request, timeout=MOMENT) as answer:
        return str(answer.read().decode())


def is_answering(gateway: GatewayProcess) -> bool:
    try:
        with urllib.request.urlopen(f"{gateway.url}/healthz", timeout=1.0) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_the_ledger_of_a_gateway_that_was_ended_is_whole(tmp_path: Path) -> None:
    with gateway_process(tmp_path, TOOLS) as gateway:
        body = {"name": "hang", "arguments": {}, "call_id": "c1"}
        assert gateway.request("POST", "/v1/tools/call", body)[0] == 504
        assert stop(gateway) == 0
    with gateway_process(tmp_path, TOOLS) as gateway:
        status, again = gateway.request("POST", "/v1/tools/call", body, ANN)
        assert (status, again["error"]["code"]) == (504, "timeout")
