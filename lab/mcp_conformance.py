"""Run the Model Context Protocol's own conformance suite on our client: `scripts/long mcp-conformance`."""

import json
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.errors import FerruleError
from lab.paths import CACHE
from lab.results_page import publish

_SECTION: Final = "mcp-conformance"
_COMMAND: Final = "```sh\nscripts/setup-mcp --conformance\nscripts/long mcp-conformance\n```"
SUITE_HOME: Final = CACHE / "mcp-conformance"
SUITE: Final = SUITE_HOME / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
EXTENSION: Final = "extension"
_OUTPUT_CHARACTERS: Final = 500
_SCENARIO: Final = re.compile(r"^\s*- (\S+) \[([^\]]+)\]$", re.MULTILINE)
# Scenarios that are not run, by the beginning of the name, and the reason.
LEFT_OUT: Final[Mapping[str, str]] = {
    "auth/dpop": "DPoP, an extension: the SDK has no proofs of possession.",
    "sep-2640-": "Skills as resources, an extension: this client supports tools, not resources.",
}


class SuiteMissingError(FerruleError):
    """The suite is not installed."""

    code = "bench_suite_missing"


@dataclass(frozen=True, slots=True)
class ScenarioVerdict:
    """The suite's result for one scenario under one revision of the protocol."""

    scenario: str
    revision: str
    counts: Mapping[str, int]
    failures: tuple[str, ...]

    @property
    def row(self) -> tuple[str, ...]:
        result = "failed" if self.failures else "passed"
        return (self.scenario, self.revision, result, *(str(self.counts.get(kind, 0)) for kind in KINDS))


KINDS: Final = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED")


def scenarios(listing: str) -> list[tuple[str, tuple[str, ...]]]:
    """The scenarios for clients, with the protocol revisions of each."""
    return [(name, tuple(revisions.split(","))) for name, revisions in _SCENARIO.findall(listing)]


def reason_left_out(scenario: str) -> str:
    return next((why for start, why in LEFT_OUT.items() if scenario.startswith(start)), "")


def verdict_of(scenario: str, revision: str, checks: Sequence[Mapping[str, Any]], exit_code: int) -> ScenarioVerdict:
    """A scenario passed only if the suite says so, no check failed and at least one passed."""
    counts = Counter(str(check["status"]) for check in checks)
    failures = [f"{check['name']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "FAILURE"]
    # A client that ended before any check ran has shown nothing.
    nothing = [] if counts["SUCCESS"] else ["no check passed"]
    ended = [f"the suite ended with {exit_code}"] if exit_code and not failures else []
    return ScenarioVerdict(scenario, revision, counts, (*failures, *nothing, *ended))


def find_node() -> str:
    programs = sorted((SUITE_HOME / "node_modules").glob("node-*/bin/node"))
    if not programs or not SUITE.exists():
        raise SuiteMissingError(f"{SUITE_HOME.name} is not set up", hint="Run scripts/setup-mcp --conformance.")
    return str(programs[0])


def _run(node: str, scenario: str, revision: str) -> ScenarioVerdict:
    client = shlex.join([sys.executable, "-m", "lab.mcp_conformance_client"])
    with tempfile.TemporaryDirectory() as folder:
        # An extension belongs to no revision.
        version_options = [] if revision == EXTENSION else ["--spec-version", revision]
        arguments = ["client", "--command", client, "--scenario", scenario, *version_options, "-o", folder]
        process = subprocess.run([node, str(SUITE), *arguments], capture_output=True, check=False, timeout=120)
        checks = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).rglob("checks.json")]
        output = " ".join(
            path.read_text(encoding="utf-8")[-_OUTPUT_CHARACTERS:] for path in sorted(Path(folder).rglob("std*.txt"))
        )
    verdict = verdict_of(scenario, revision, [check for results in checks for check in results], process.returncode)
    return (
        replace(verdict, failures=(*verdict.failures, f"the client's output: {output}"))
        if verdict.failures
        else verdict
    )


def _verdicts(
    node: str, scenario_list: list[tuple[str, tuple[str, ...]]], console: Console
) -> Iterator[ScenarioVerdict]:
    runs = [(name, one) for name, revisions in scenario_list for one in revisions if not reason_left_out(name)]
    for name, revision in track(runs, "asking", console=console):
        yield _run(node, name, revision)


def table_of(verdicts: list[ScenarioVerdict], left_out: Mapping[str, int]) -> Table:
    passed = sum(not one.failures for one in verdicts)
    tried, untried = len({one.scenario for one in verdicts}), sum(left_out.values())
    return Table(
        f"{tried} of {tried + untried} client scenarios tried: {passed} of {len(verdicts)} runs passed",
        "Each scenario under each protocol revision that it applies to. *skipped* are checks of optional features that "
        "this client does not have: prompts, resources, sampling, roots, and a handshake in the newer revisions.",
        ("scenario", "revision", "verdict", "passed", "failed", "warnings", "skipped"),
        [one.row for one in verdicts],
        [
            *(f"{one.scenario}, {one.revision}: {failure}" for one in verdicts for failure in one.failures),
            *(f"{count} scenarios {start}... were not run. {LEFT_OUT[start]}" for start, count in left_out.items()),
        ],
        text_columns=3,
    )


def main() -> None:
    console = Console()
    node = find_node()
    listing = subprocess.run([node, str(SUITE), "list", "--client"], capture_output=True, text=True, check=True).stdout
    scenario_list = scenarios(listing)
    verdicts = list(_verdicts(node, scenario_list, console))
    left_out = {start: sum(name.startswith(start) for name, _ in scenario_list) for start in LEFT_OUT}
    table = table_of(verdicts, left_out)
    print_table(table, console)
    pins = (SUITE_HOME / ".pins").read_text(encoding="utf-8").strip().replace("@modelcontextprotocol/", "")
    day = datetime.now(UTC).date().isoformat()
    environment = (
        f"{day}; Python {platform.python_version()}; Ferrule {version('ferrule')}; mcp {version('mcp')}; {pins}."
    )
    publish(_SECTION, "MCP conformance", [_COMMAND, environment, markdown(table)])


if __name__ == "__main__":
    main()
