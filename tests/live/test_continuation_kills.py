"""Approved while the caller is gone, and the gateway killed at every step from the decision to the webhook.

The payment happens at most once, and exactly once unless the gateway died inside it; the conversation ends; the webhook
arrives, at a receiver that fails twice; and the caller fetches the result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from architecture.source_tree import ROOT, SRC
from lab.loopback_server import loopback_server
from run.ledger_databases import postgres_cluster, postgres_database
from waiting import PATIENCE

pytestmark = pytest.mark.live
_GATEWAY = Path(__file__).with_name("continuation_gateway.py")
# From the start to the record of the outcome nobody can say whether it was paid: that is reported as unknown.
_MADE = "effect: made"
_SAMPLE = frozenset({"approved 1: written", _MADE, "done 1: written", "end_continuation 1: written"})


@dataclass(slots=True)
class Receiver:
    """Answers 503 to the first two attempts of each webhook."""

    url: str = ""
    attempts: Counter[str] = field(default_factory=Counter[str])
    taken: list[str] = field(default_factory=list[str])


@contextmanager
def receiver() -> Generator[Receiver]:
    one = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            id = self.headers["webhook-id"]
            one.attempts[id] += 1
            if one.attempts[id] > 2:
                one.taken.append(body["data"]["conversation"])
            self.send_response(204 if one.attempts[id] > 2 else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with loopback_server(Handler) as url:
        one.url = url
        yield one


@dataclass(slots=True)
class Gateway:
    process: subprocess.Popen[str]
    url: str

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def request(self, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer; None if the gateway died."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)
        except (OSError, ValueError):
            return None


@contextmanager
def gateway(ledger: str, folder: Path, webhook: str, point: str = "") -> Generator[Gateway]:
    process = subprocess.Popen(
        [sys.executable, str(_GATEWAY), ledger, str(folder / "effects"), str(folder / "points"), webhook, point],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, ROOT / "tests")))},
    )
    try:
        assert process.stdout is not None
        yield Gateway(process, f"http://127.0.0.1:{int(process.stdout.readline().split()[1])}")
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def ask(one: Gateway) -> dict[str, Any]:
    """Ask, and go away. Return what waits."""
    answer = one.request("/v1/chat/completions", {"messages": [{"role": "user", "content": "Pay Bob."}]})
    return next(event["waiting"] for event in answer["ferrule"]["events"] if "waiting" in event)


def decide(one: Gateway, waiting: dict[str, Any]) -> None:
    one.request(f"/v1/approvals/{waiting['approvals'][0]}", {"approve": True})


def settle(one: Gateway, conversation: str, hook: Receiver) -> dict[str, Any] | None:
    """Wait for the webhook and return the result; None if the gateway dies before."""
    until = time.monotonic() + PATIENCE
    while conversation not in hook.taken:
        if one.is_dead:
            return None
        assert time.monotonic() < until, one.request(f"/v1/conversations/{conversation}/result")
        time.sleep(0.05)
    # The gateway still notes that the webhook was taken.
    time.sleep(0.3)
    return one.request(f"/v1/conversations/{conversation}/result")


def points_of_a_whole_run(ledger: str, folder: Path, hook: Receiver) -> list[str]:
    folder.mkdir()
    with gateway(ledger, folder, hook.url) as one:
        waiting = ask(one)
        before = len((folder / "points").read_text().splitlines())
        decide(one, waiting)
        result = settle(one, waiting["conversation"], hook)
    assert result is not None
    assert result["text"] == "Paid Bob."
    return list(dict.fromkeys((folder / "points").read_text().splitlines()[before:]))


def kill_at(tmp_path: Path, chosen: frozenset[str] | None) -> None:
    """Kill a gateway at each point, or at the chosen ones, and let another one finish."""
    with postgres_cluster() as cluster, receiver() as hook:
        ledger = postgres_database(cluster).where
        points = points_of_a_whole_run(ledger, tmp_path / "whole", hook)
        reports: list[tuple[str, int, str, int]] = []
        for number, point in enumerate(points):
            if chosen is not None and point not in chosen:
                continue
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "effects").touch()
            with gateway(ledger, folder, hook.url, point) as one:
                waiting = ask(one)
                conversation = waiting["conversation"]
                decide(one, waiting)
                settle(one, conversation, hook)
                assert one.is_dead, point
            with gateway(ledger, folder, hook.url) as one:
                if one.request(f"/v1/approvals/{waiting['approvals'][0]}")["state"] == "pending":
                    # It died before the decision was committed, and the approver has seen no answer.
                    decide(one, waiting)
                result = settle(one, conversation, hook)
            effects = len((folder / "effects").read_text().splitlines())
            assert result is not None
            reports.append((point, effects, result["status"], hook.taken.count(conversation)))
            content = str(result["calls"][0]["content"])
            steps = point.partition(" ")[0].split("+")
            if point.startswith("effect: ") or ("started" in steps and "done" not in steps):
                assert effects == (1 if point == _MADE else 0), point
                assert content.startswith("unknown: "), point
            else:
                assert (effects, content) == (1, "paid 3"), point
            assert (result["status"], result["text"]) == ("completed", "Paid Bob."), point
        twice = [point for point, effects, _, _ in reports if effects > 1]
        print(
            f"\n{len(reports)} points: {sum(effects for _, effects, _, _ in reports)} payments, {len(twice)} twice, "
            f"{sum(status != 'completed' for _, _, status, _ in reports)} not completed, "
            f"{sum(taken == 0 for *_, taken in reports)} without a webhook"
        )
        for report in reports:
            print(*report)
        assert len(reports) == (len(points) if chosen is None else len(chosen))
        assert twice == []


def test_killed_after_the_decision_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path) -> None:
    kill_at(tmp_path, _SAMPLE)


@pytest.mark.long
def test_killed_at_every_step_after_the_decision_it_is_the_same(tmp_path: Path) -> None:
    kill_at(tmp_path, None)
