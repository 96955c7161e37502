"""The dashboard and the alert rules on a real Prometheus that scrapes a real gateway after real traffic.

The gateway has Postgres, an engine that is away, an MCP server that fails, a call whose outcome nobody knows, a
repaired call and a call that waits for approval: everything that a panel shows or an alert looks at has happened.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ferrule.server.observability.metrics import FAMILIES
from lab.loopback_server import loopback_server
from lab.paths import ROOT
from lab.servers import free_port
from live.prometheus_server import DEPLOY, PROGRAMS, Prometheus, prometheus
from live.scripted_model import Said, results_in, scripted_model
from run.ledger_databases import postgres_cluster
from server.gateway_process import GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

pytestmark = pytest.mark.live
OPERATOR = "operator-of-acme"
MCP_SERVER = Path(__file__).with_name("mcp_server.py")
RULES, RULE_TESTS = DEPLOY / "alerts.yml", ROOT / "tests" / "docs" / "alerts_test.yml"
TOOLS = '''
import threading

from ferrule import tool

@tool
def lookup(number: int) -> str:
    """Looks a number up."""
    return str(number)

@tool(side_effects=True)
def pay(amount: int) -> str:
    """Pays."""
    return "paid"

@tool(side_effects=True)
def hang() -> str:
    """Begins something and never says how it went."""
    threading.Event().wait()
    return "never"
'''
CONFIG = """
[server]
port = 0
drain_seconds = 1
ledger = "{ledger}"

[engines.away]
use = "openai:m?tries=1"
url = "http://127.0.0.1:{nobody}/v1"
key = "x"

[engines.full]
use = "openai:m?tries=1"
url = "{full}"
key = "x"

[engines.scripted]
use = "openai:m?tries=1"
url = "{model}"
key = "x"

[engines.plain]
use = "fake:Hello."

[models.m]
engines = ["full", "scripted"]

[models.plain]
engines = ["plain"]

[models.gone]
engines = ["away"]

[tools]
tools_per_tool_timeout_seconds = 5

[sources]
functions = ["{functions}"]
mcp_command = "{python}"
mcp_args = ["{server}", "stdio"]
mcp_read_only = ["*"]
mcp_trusted = true

[[keys]]
name = "{name}"
sha256 = "{sha256}"
tools = ["*"]
approve = true
admin = true
"""
METRIC = re.compile(r"\b(?:ferrule|gen_ai|mcp)_\w+")
SELECTED = re.compile(r"\b((?:ferrule|gen_ai|mcp)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"\b(?:by|ignoring|on)\s*\(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job", "le"}


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> list[tuple[str, str]]:
    """The title and the query of each target, with what Grafana puts in place of its variables."""
    dashboard = json.loads((DEPLOY / "grafana" / "ferrule.json").read_text(encoding="utf-8"))
    return [
        (panel["title"], target["expr"].replace("$__rate_interval", "2m").replace("$__range", "1h"))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


@dataclass(frozen=True, slots=True)
class Observed:
    gateway: GatewayProcess
    prometheus: Prometheus
    labels: dict[str, set[str]]
    """The labels of the samples of `/metrics`, by name."""


class Full(BaseHTTPRequestHandler):
    """An engine that accepts connections and has no room for requests."""

    def do_POST(self) -> None:
        self.send_error(503)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
    """Call a tool of the gateway with arguments that do not fit, and then with some that do."""
    match results_in(messages):
        case []:
            return Said(calls=[("lookup", {"number": "three"})])
        case [refused] if "invalid_arguments" in refused:
            return Said(calls=[("lookup", {"number": 3})])
        case _:
            return Said("That is it.", tokens=(40, 4))


def chat(gateway: GatewayProcess, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Go."}]}
    return gateway.request("POST", "/v1/chat/completions", body, OPERATOR)[0]


def approval_of(gateway: GatewayProcess, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    body = {"name": tool, "arguments": arguments, "call_id": f"the-{tool}", "conversation": f"of-{tool}"}
    gateway.request("POST", "/v1/tools/call", body, OPERATOR)
    _, pending = gateway.request("GET", f"/v1/approvals?tool={tool}&state=pending", who=OPERATOR)
    return pending["data"][0]["id"], body


def make_traffic(gateway: GatewayProcess) -> None:
    """Everything once that the dashboard and the alerts look at."""
    assert chat(gateway, "plain") == 200
    assert chat(gateway, "m") == 200
    assert chat(gateway, "gone") >= 500
    eventually(lambda: gateway.call("mcp_add", OPERATOR, a=1, b=2)[0] == 200)
    gateway.call("mcp_die", OPERATOR)
    approval_of(gateway, "pay", {"amount": 3})
    approval, body = approval_of(gateway, "hang", {})
    decision = {"approve": True}
    assert gateway.request("POST", f"/v1/approvals/{approval}", decision, OPERATOR)[0] == 200
    # A second decision is an error of the ledger.
    assert gateway.request("POST", f"/v1/approvals/{approval}", {"approve": False}, OPERATOR)[0] >= 400
    _, answer = gateway.request("POST", "/v1/tools/call", body, OPERATOR)
    assert answer["outcome"] == "unknown", answer


def page(gateway: GatewayProcess) -> str:
    request = urllib.request.Request(f"{gateway.url}/metrics", headers={"authorization": f"Bearer {OPERATOR}"})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Observed]:
    folder = tmp_path_factory.mktemp("observed")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    with postgres_cluster() as cluster, scripted_model(reply) as model, loopback_server(Full) as full:
        config = CONFIG.format(
            ledger=f"postgresql://postgres@/postgres?host={cluster}",
            nobody=free_port(),
            model=model.url,
            full=full,
            functions=folder / "tools.py",
            python=sys.executable,
            server=MCP_SERVER,
            name=OPERATOR,
            sha256=key(OPERATOR).sha256,
        )
        with gateway_with_config(folder, config) as gateway, prometheus(folder, gateway.url, OPERATOR) as server:
            # Scraped before anything happened, as in production: alerts must see the first time that it does.
            eventually(lambda: len(server.series('ferrule_workers{job="ferrule"}[1m]')) > 0)
            make_traffic(gateway)
            labels: dict[str, set[str]] = {}
            for family in text_string_to_metric_families(page(gateway)):
                for sample in family.samples:
                    labels.setdefault(sample.name, set()).update(sample.labels)
            yield Observed(gateway, server, labels)


def test_every_metric_and_label_of_the_dashboard_and_the_alerts_is_exposed_after_traffic(observed: Observed) -> None:
    for where, expression in [*panels(), *alerts().items()]:
        named: set[str] = set()
        for name, selector in SELECTED.findall(expression):
            if name in {label for family in FAMILIES.values() for label in family.labels}:
                continue
            assert name in observed.labels, (where, name)
            named |= observed.labels[name]
            assert set(LABEL.findall(selector)) <= observed.labels[name] | OF_PROMETHEUS, (where, name, selector)
        grouped = {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")}
        assert grouped <= named | OF_PROMETHEUS, (where, expression)


def test_every_panel_shows_something(observed: Observed) -> None:
    waiting = panels()

    def are_shown() -> bool:
        waiting[:] = [(title, query) for title, query in waiting if not observed.prometheus.series(query)]
        return not waiting

    try:
        eventually(are_shown)
    except TimeoutError:
        pytest.fail(f"nothing to show: {waiting}")


def test_prometheus_evaluates_every_rule_and_the_first_unknown_outcome_raises_its_alert(observed: Observed) -> None:
    def states() -> dict[str, str]:
        return {rule["name"]: rule["state"] for rule in observed.prometheus.rules}

    eventually(lambda: all(rule["health"] == "ok" for rule in observed.prometheus.rules))
    assert set(states()) == set(alerts())
    # It needs no time to pass, so it is not pending.
    eventually(lambda: states()["FerruleUnknownOutcomes"] == "firing")
    # These wait for minutes first. What they look at is there.
    eventually(lambda: states()["FerruleEngineUnwell"] == "pending")
    assert states()["FerruleDown"] == "inactive"
    assert states()["FerruleUnexpectedErrors"] == "inactive"


def test_prometheus_keeps_the_exemplars_that_lead_to_a_request(observed: Observed) -> None:
    query = {"query": "gen_ai_server_request_duration_seconds_bucket", "start": "0", "end": "9999999999"}
    eventually(lambda: bool(observed.prometheus.get("/api/v1/query_exemplars", **query)))
    (first, *_) = observed.prometheus.get("/api/v1/query_exemplars", **query)
    assert first["exemplars"][0]["labels"]["request_id"].startswith("req_")


def test_each_alert_is_raised_by_what_it_is_for_and_by_nothing_else() -> None:
    written = yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))
    tested = [check for one in written["tests"] for check in one["alert_rule_test"]]
    for name in alerts():
        mine = [bool(check.get("exp_alerts")) for check in tested if check["alertname"] == name]
        assert {True, False} <= set(mine), name
    for command in (["check", "rules", RULES], ["test", "rules", RULE_TESTS]):
        done = subprocess.run([PROGRAMS / "promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
