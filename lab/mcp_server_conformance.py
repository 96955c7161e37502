"""Run the MCP conformance suite's server scenarios on a gateway's `/mcp`: `scripts/long mcp-server-conformance`."""

import json
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track

from ferrule.bench.tables import Table, markdown, print_table
from lab.gateway_process import gateway_process
from lab.mcp_conformance import EXTENSION, KINDS, SUITE, SUITE_HOME, ScenarioVerdict, find_node, scenarios, verdict_of
from lab.results_page import publish

_SECTION: Final = "mcp-server-conformance"
_COMMAND: Final = "```sh\nscripts/setup-mcp --conformance\nscripts/long mcp-server-conformance\n```"
_TOOLS: Final = Path(__file__).parent / "mcp_conformance_tools.py"
# Below the oldest revision that the gateway speaks.
_OLDER: Final = frozenset({"2025-03-26"})
# Scenarios that are not run, by the beginning of the name, and the reason.
LEFT_OUT: Final[Mapping[str, str]] = {
    "completion-": "The gateway has no prompts and no resources to complete.",
    "elicitation-": "The gateway asks a client's user for approvals only, and not what a tool wants to know.",
    "http-custom-header-": "The gateway takes `x-mcp-header` out of schemas, so no client has to repeat arguments.",
    "input-required-result-": "The gateway asks a client's user for approvals only, and not what a tool wants to know.",
    "logging-": "The gateway sends no logs to clients; 2026-07-28 has removed that.",
    "prompts-": "The gateway serves tools, and no prompts.",
    "resources-": "The gateway serves tools, and no resources.",
    "sep-2164-": "The gateway serves tools, and no resources.",
    "sep-2640-": "Skills as resources, an extension.",
    "tasks-mrtr-composition": "The gateway asks a client's user for approvals only, and not what a tool wants to know.",
    "tools-call-elicitation": "The gateway asks a client's user for approvals only.",
    "tools-call-sampling": "The gateway has models itself, and asks no client for samples.",
    "tools-call-with-logging": "The gateway sends no logs to clients; 2026-07-28 has removed that.",
}
# Checks that fail, and the reason: each is about more than the scenario that they are in.
KNOWN_FAILURES: Final[Mapping[str, str]] = {
    "json-schema-2020-12-$schema": "`/mcp` lists the schema as the gateway admitted it, which is always of 2020-12, "
    "the default; the keyword is left out.",
    "sep-2106-anchor-keyword-preserved": "In the admitted schema each reference is resolved, and anchors are gone.",
    "sep-2549-prompts-list-caching-hints": "The gateway serves tools, and no prompts.",
    "sep-2549-resources-list-caching-hints": "The gateway serves tools, and no resources.",
    "sep-2549-resources-templates-list-caching-hints": "The gateway serves tools, and no resources.",
    "sep-2663-server-returns-missing-capability-when-required": "No tool of the gateway needs to be a task: a client "
    "that takes none has an open call.",
    "sep-2663-tasks-get-status-failed": "What a tool raises is the tool's answer, and its task is completed with an "
    "error. Failed is what the gateway itself could not do.",
    "tasks-mrtr-partial-fulfillment": "It needs a tool that asks two questions at once; a call needs one approval.",
    "sep-2575-server-rejects-undeclared-capability": "It needs a tool that asks the client for a sample.",
    "sep-2575-missing-capability-http-400": "It needs a tool that asks the client for a sample.",
}


def reason_left_out(scenario: str) -> str:
    return next((why for start, why in LEFT_OUT.items() if scenario.startswith(start)), "")


def server_verdict(
    scenario: str, revision: str, checks: Sequence[Mapping[str, Any]], exit_code: int
) -> ScenarioVerdict:
    """The verdict with the ids of failed checks. One that has nothing to test on this server has no failure."""
    named = [{**check, "name": check["id"]} for check in checks]
    verdict = verdict_of(scenario, revision, named, exit_code)
    is_idle = bool(checks) and not exit_code and not any(check["status"] in ("SUCCESS", "FAILURE") for check in checks)
    return ScenarioVerdict(scenario, revision, verdict.counts, ()) if is_idle else verdict


def row_of(verdict: ScenarioVerdict) -> tuple[str, ...]:
    if not verdict.failures and not verdict.counts.get("SUCCESS", 0):
        result = "nothing to test"
    else:
        result = "failed" if verdict.failures else "passed"
    counts = (str(verdict.counts.get(kind, 0)) for kind in KINDS)
    return (verdict.scenario, verdict.revision, result, *counts)


def table_of(verdicts: list[ScenarioVerdict], left_out: Mapping[str, int]) -> Table:
    rows = [row_of(one) for one in verdicts]
    failed = {failure.partition(":")[0] for one in verdicts for failure in one.failures}
    return Table(
        f"{sum(row[2] == 'passed' for row in rows)} of {len(rows)} runs passed, "
        f"{sum(row[2] == 'nothing to test' for row in rows)} had nothing to test",
        "Each scenario under each protocol revision that it applies to, at the `/mcp` of a gateway with the tools that "
        "the suite calls. *Nothing to test*: the scenario is about sessions, and the gateway has none, or the "
        "suite has no check for it yet.",
        ("scenario", "revision", "verdict", "passed", "failed", "warnings", "skipped"),
        rows,
        [
            *(f"{one.scenario}, {one.revision}: {failure}" for one in verdicts for failure in one.failures),
            *(f"{check}: {why}" for check, why in KNOWN_FAILURES.items() if check in failed),
            *(f"{count} scenarios {start}... were not run. {LEFT_OUT[start]}" for start, count in left_out.items()),
        ],
        text_columns=3,
    )


def _run(node: str, url: str, scenario: str, revision: str) -> ScenarioVerdict:
    with tempfile.TemporaryDirectory() as folder:
        # An extension belongs to no revision.
        version_options = [] if revision == EXTENSION else ["--spec-version", revision]
        arguments = ["server", "--url", f"{url}/mcp", "--scenario", scenario, *version_options, "-o", folder]
        process = subprocess.run([node, str(SUITE), *arguments], capture_output=True, check=False, timeout=300)
        files = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).rglob("checks.json")]
    return server_verdict(scenario, revision, [check for checks in files for check in checks], process.returncode)


def main() -> None:
    console = Console()
    node = find_node()
    listing = subprocess.run([node, str(SUITE), "list", "--server"], capture_output=True, text=True, check=True).stdout
    known = scenarios(listing)
    runs = [(name, one) for name, revisions in known for one in revisions if not reason_left_out(name)]
    runs = [(name, revision) for name, revision in runs if revision not in _OLDER]
    with gateway_process(["--tools", f"{_TOOLS}:TOOLS"], engine="fake:hello") as gateway:
        verdicts = [_run(node, gateway.url, *one) for one in track(runs, "asking", console=console)]
    left_out = {start: sum(name.startswith(start) for name, _ in known) for start in LEFT_OUT}
    table = table_of(verdicts, left_out)
    print_table(table, console)
    pins = (SUITE_HOME / ".pins").read_text(encoding="utf-8").strip().replace("@modelcontextprotocol/", "")
    day = datetime.now(UTC).date().isoformat()
    environment = f"{day}; Python {platform.python_version()}; Ferrule {version('ferrule')}; {pins}."
    publish(_SECTION, "MCP conformance of the gateway as a server", [_COMMAND, environment, markdown(table)])


if __name__ == "__main__":
    main()
