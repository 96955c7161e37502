"""The Model Context Protocol's own conformance suite on our client: `scripts/long mcp-conformance`."""

import json
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track

from ferrule.bench.tables import Table, markdown, show
from ferrule.errors import FerruleError
from lab.paths import CACHE
from lab.results_page import publish

_SECTION: Final = "mcp-conformance"
_COMMAND: Final = "```sh\nscripts/setup-mcp --conformance\nscripts/long mcp-conformance\n```"
_HOME: Final = CACHE / "mcp-conformance"
_SUITE: Final = _HOME / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
_SAID: Final = 500
_SCENARIO: Final = re.compile(r"^\s*- (\S+) \[([^\]]+)\]$", re.MULTILINE)
# By the beginning of a scenario's name: what it is about that this client does not do.
LEFT_OUT: Final[Mapping[str, str]] = {
    "auth/": "OAuth: this client does not speak it. A token goes into its configuration, by hand.",
    "sep-2640-": "Skills as resources, an extension: this client brings tools and reads no resources.",
}


class SuiteMissing(FerruleError):
    """The suite is not there."""

    code = "bench_suite_missing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the suite said of one scenario under one revision of the protocol."""

    scenario: str
    revision: str
    counts: Mapping[str, int]
    failures: tuple[str, ...]

    @property
    def row(self) -> tuple[str, ...]:
        said = "failed" if self.failures else "passed"
        return (self.scenario, self.revision, said, *(str(self.counts.get(kind, 0)) for kind in _KINDS))


_KINDS: Final = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED")


def scenarios(listing: str) -> list[tuple[str, tuple[str, ...]]]:
    """The scenarios for clients and the revisions that each is for."""
    return [(name, tuple(revisions.split(","))) for name, revisions in _SCENARIO.findall(listing)]


def reason_left_out(scenario: str) -> str:
    return next((why for start, why in LEFT_OUT.items() if scenario.startswith(start)), "")


def verdict_of(scenario: str, revision: str, checks: list[Mapping[str, Any]], exit_code: int) -> Verdict:
    """Passed only where the suite itself says so, no check failed and at least one passed."""
    counts = Counter(str(check["status"]) for check in checks)
    failures = [f"{check['name']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "FAILURE"]
    # A client that ended before anything was looked at has shown nothing.
    nothing = [] if counts["SUCCESS"] else ["no check passed"]
    ended = [f"the suite ended with {exit_code}"] if exit_code and not failures else []
    return Verdict(scenario, revision, counts, (*failures, *nothing, *ended))


def _node() -> str:
    found = sorted((_HOME / "node_modules").glob("node-*/bin/node"))
    if not found or not _SUITE.exists():
        raise SuiteMissing(f"{_HOME.name} is not set up", hint="Run scripts/setup-mcp --conformance.")
    return str(found[0])


def _run(node: str, scenario: str, revision: str) -> Verdict:
    client = shlex.join([sys.executable, "-m", "lab.mcp_conformance_client"])
    with tempfile.TemporaryDirectory() as folder:
        asked = ["client", "--command", client, "--scenario", scenario, "--spec-version", revision, "-o", folder]
        ran = subprocess.run([node, str(_SUITE), *asked], capture_output=True, check=False, timeout=120)
        checks = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).rglob("checks.json")]
        said = " ".join(path.read_text(encoding="utf-8")[-_SAID:] for path in sorted(Path(folder).rglob("std*.txt")))
    verdict = verdict_of(scenario, revision, [check for held in checks for check in held], ran.returncode)
    return replace(verdict, failures=(*verdict.failures, f"the client said: {said}")) if verdict.failures else verdict


def _verdicts(node: str, found: list[tuple[str, tuple[str, ...]]], console: Console) -> Iterator[Verdict]:
    chosen = [(name, one) for name, revisions in found for one in revisions if not reason_left_out(name)]
    for name, revision in track(chosen, "asking", console=console):
        yield _run(node, name, revision)


def table_of(verdicts: list[Verdict], left_out: Mapping[str, int]) -> Table:
    passed = sum(not one.failures for one in verdicts)
    tried, untried = len({one.scenario for one in verdicts}), sum(left_out.values())
    return Table(
        f"{tried} of {tried + untried} client scenarios tried: {passed} of {len(verdicts)} runs passed",
        "Each scenario under each revision of the protocol that it is for. *skipped* are checks on what the scenario "
        "allows and this client does not do: prompts, resources, sampling, roots, and a handshake in the newer era.",
        ("scenario", "revision", "verdict", "passed", "failed", "warnings", "skipped"),
        [one.row for one in verdicts],
        [
            *(f"{one.scenario}, {one.revision}: {told}" for one in verdicts for told in one.failures),
            *(f"{count} scenarios {start}... were not run. {LEFT_OUT[start]}" for start, count in left_out.items()),
        ],
        words=3,
    )


def main() -> None:
    console = Console()
    node = _node()
    listed = subprocess.run([node, str(_SUITE), "list", "--client"], capture_output=True, text=True, check=True).stdout
    found = scenarios(listed)
    verdicts = list(_verdicts(node, found, console))
    left_out = {start: sum(name.startswith(start) for name, _ in found) for start in LEFT_OUT}
    table = table_of(verdicts, left_out)
    show(table, console)
    pins = (_HOME / ".pins").read_text(encoding="utf-8").strip().replace("@modelcontextprotocol/", "")
    day = datetime.now(UTC).date().isoformat()
    told = f"{day}; Python {platform.python_version()}; Ferrule {version('ferrule')}; mcp {version('mcp')}; {pins}."
    publish(_SECTION, "MCP conformance", [_COMMAND, told, markdown(table)])


if __name__ == "__main__":
    main()
