"""Compare what real engines honour by themselves, as found by the doctor: `scripts/long doctor`."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.engines.doctor import PROBES, TOTAL, examine
from ferrule.engines.doctor.probe import Probe
from ferrule.engines.http import HttpClient
from ferrule.engines.profile import Finding, Profile, Verdict
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from lab.servers import llama_server, vllm_server

_SECTION: Final = "doctor"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/long doctor 2\n```"
# With default settings: vLLM without --tool-strict-level, which would enforce every tool's schema.
SERVERS: Final[Mapping[str, Callable[[], AbstractContextManager[str]]]] = {
    "llama-server": llama_server,
    "vLLM": vllm_server,
}


async def profile_of(
    url: str, runs: int, advance: Callable[[Finding], None] = lambda _: None, probes: Sequence[Probe] = PROBES
) -> Profile:
    http = HttpClient(url)
    try:
        return await examine(http, "smol", runs=runs, advance=advance, probes=probes)
    finally:
        await http.close()


def table_of(profiles: Mapping[str, Profile], runs: int) -> Table:
    """One row per probe with each engine's verdict; the evidence for what is not honoured is in the notes."""
    findings = {name: {finding.name: finding for finding in profile.findings} for name, profile in profiles.items()}
    probes = list(dict.fromkeys(finding.name for profile in profiles.values() for finding in profile.findings))
    return Table(
        f"What the engines honour by themselves, {runs} runs of each probe",
        "SmolLM2-135M-Instruct with a template for Hermes calls, temperature 1, a different seed each time, each "
        "server with its defaults. *honoured*: satisfied in every run, and not satisfied when it was not requested. "
        "*ignored*: not satisfied. *partly*: not satisfied every time. *refused*: the engine returns an error. "
        "*unknown*: the model's behaviour showed nothing either way. *schema* requires a call and nothing else, "
        "*strict* is the same with the tool marked strict.",
        ("probe", *profiles),
        [(probe, *(findings[name][probe].verdict.value for name in profiles)) for probe in probes],
        [
            f"{name}, {finding.name}: {finding.evidence}"
            for name, profile in profiles.items()
            for finding in profile.findings
            if finding.verdict is not Verdict.HONOURED
        ],
    )


def profiles_of(names: Sequence[str], runs: int, progress: Progress) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    for name in names:
        task = progress.add_task(name, total=TOTAL)
        with SERVERS[name]() as url:
            profiles[name] = asyncio.run(profile_of(url, runs, lambda _, t=task: progress.advance(t)))
    return profiles


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long doctor", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=3)
    parser.add_argument("--engine", action="append", choices=tuple(SERVERS))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        profiles = profiles_of(arguments.engine or list(SERVERS), arguments.runs, progress)
    table = table_of(profiles, arguments.runs)
    print_table(table, console)
    if not arguments.engine:
        parts = [_COMMAND, describe_environment(measured_environment()), markdown(table)]
        publish(_SECTION, "What engines honour", parts)


if __name__ == "__main__":
    main()
