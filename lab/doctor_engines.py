"""What real engines honour by themselves, found by the doctor, side by side: `scripts/long doctor`."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, show
from ferrule.engines.doctor import PROBES, TOTAL, examine
from ferrule.engines.doctor.probe import Probe
from ferrule.engines.http import Http
from ferrule.engines.profile import Finding, Profile, Verdict
from lab.environment import circumstances, told
from lab.results_page import publish
from lab.servers import llama_server, vllm_server

_SECTION: Final = "doctor"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/long doctor 2\n```"
# As they come: vLLM without --tool-strict-level, which would hold every tool to its schema.
SERVERS: Final[Mapping[str, Callable[[], AbstractContextManager[str]]]] = {
    "llama-server": llama_server,
    "vLLM": vllm_server,
}


async def profile_of(
    url: str, runs: int, advance: Callable[[Finding], None] = lambda _: None, probes: Sequence[Probe] = PROBES
) -> Profile:
    http = Http(url)
    try:
        return await examine(http, "smol", runs=runs, advance=advance, probes=probes)
    finally:
        await http.close()


def table_of(profiles: Mapping[str, Profile], runs: int) -> Table:
    """A row for each probe, with a verdict for each engine; what was seen where it is not honoured stands below."""
    found = {name: {finding.name: finding for finding in profile.findings} for name, profile in profiles.items()}
    probes = list(dict.fromkeys(finding.name for profile in profiles.values() for finding in profile.findings))
    return Table(
        f"What the engines honour by themselves, {runs} runs of each probe",
        "SmolLM2-135M-Instruct with a template for Hermes calls, temperature 1, another seed each time, each server "
        "with its defaults. *honoured*: kept in every run, and shown not to be kept where it was not demanded. "
        "*ignored*: not kept. *partly*: not kept every time. *refused*: the engine says that it does not take it. "
        "*unknown*: the model could not be brought to show it. *schema* is a call demanded and nothing "
        "else, *strict* the same with the tool marked strict.",
        ("probe", *profiles),
        [(probe, *(found[name][probe].verdict.value for name in profiles)) for probe in probes],
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
    show(table, console)
    if not arguments.engine:
        parts = [_COMMAND, told(circumstances()), markdown(table)]
        publish(_SECTION, "What engines honour", parts)


if __name__ == "__main__":
    main()
