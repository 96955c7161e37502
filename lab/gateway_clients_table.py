"""Count how often each client's calls were correct: `scripts/long gateway-clients [N]`."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from lab import claude_code
from lab.client_runs import CLIENT_RUNS, ClientRun
from lab.gateway_clients import client_bench
from lab.gateway_verdicts import RunVerdict
from lab.paths import CACHE
from lab.results_page import publish, section
from lab.versions import describe_versions

_SECTION: Final = "gateway-clients"
_HEADING: Final = "Real clients against the gateway"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-clients --npm\nscripts/long gateway-clients 20\n```"
_CLAUDE_CODE: Final = "Claude Code"
_PINNED: Final = ("venvs/client-openai", "venvs/client-anthropic", "venvs/client-agents", "venvs/client-pydantic-ai")


@dataclass(slots=True)
class ClientCount:
    """The totals of one kind of run."""

    client: str
    run_name: str
    runs: int = 0
    right: int = 0
    calls: int = 0
    streams: int = 0
    events: int = 0
    faults: tuple[str, ...] = ()

    def add(self, verdict: RunVerdict) -> None:
        self.runs += 1
        self.right += not verdict.faults
        self.calls += verdict.calls
        self.streams += verdict.streams
        self.events += verdict.events
        self.faults = (*self.faults, *verdict.faults)

    @property
    def row(self) -> tuple[str, ...]:
        streams = (str(self.streams), str(self.events)) if self.streams else ("", "")
        return (self.client, self.run_name, f"{self.right} of {self.runs}", str(self.calls), *streams)


def count_runs(
    client_runs: Iterable[ClientRun], runs: int, advance: Callable[[], None] = lambda: None
) -> list[ClientCount]:
    """Repeat each kind of run `runs` times, against one gateway."""
    counts: list[ClientCount] = []
    with client_bench() as bench:
        for client_run in client_runs:
            count = ClientCount(client_run.client, client_run.name)
            for _ in range(runs):
                count.add(bench.run(client_run))
                advance()
            counts.append(count)
    return counts


def count_claude_code(runs: int, advance: Callable[[], None] = lambda: None) -> tuple[ClientCount, Sequence[int]]:
    """Count runs of Claude Code. Also returns the number of successful tool results and the longest prompt's tokens."""
    count = ClientCount(_CLAUDE_CODE, "one turn with its Read tool, loopback only")
    read, longest = 0, 0
    for result in claude_code.run_results(runs):
        count.add(RunVerdict(tuple(result["faults"]), result["streams"], result["events"], result["calls"]))
        read += result["read"]
        longest = max(longest, *result["prompt_tokens"])
        advance()
    return count, (read, longest)


def table_of(counts: Sequence[ClientCount], notes: Sequence[str]) -> Table:
    return Table(
        "Runs in which every call was correct",
        "SmolLM2-135M-Instruct, in the gateway's own process, at temperature 0.8 (Claude Code: the engine's default). "
        "A run is correct if the client raised nothing, it returned at least one call, every call names an offered "
        "tool and matches the schema that the client sent, each answer validates against the client's own types with "
        "Pydantic in strict mode, and no stream omits anything that a client requires.",
        ("client", "run", "correct", "calls", "streams", "events"),
        [count.row for count in counts],
        [*notes, *(f"{one.client}, {one.run_name}: {fault}" for one in counts for fault in one.faults[:3])],
        text_columns=2,
    )


def _pins() -> list[str]:
    pinned = [(CACHE / folder / ".pins").read_text(encoding="utf-8").strip() for folder in (*_PINNED, "claude-code")]
    return [*pinned, "SmolLM2-135M-Instruct Q4_1"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long gateway-clients", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("--only", metavar="WORDS", help="only the runs whose client and name contain this text")
    parser.add_argument("--print", action="store_true", help="print the section, do not write the page")
    arguments = parser.parse_args()
    client_runs = [client_run for client_run in CLIENT_RUNS if not arguments.only or arguments.only in client_run.label]
    console = Console()
    notes: list[str] = []
    with Progress(console=console) as progress:
        task = progress.add_task("clients", total=arguments.runs * (len(client_runs) + 1))
        counts = count_runs(client_runs, arguments.runs, lambda: progress.advance(task)) if client_runs else []
        if not arguments.only or arguments.only in _CLAUDE_CODE:
            count, (read, longest) = count_claude_code(arguments.runs, lambda: progress.advance(task))
            counts.append(count)
            notes.append(
                f"Claude Code: {read} of its {count.calls} calls named an existing file (the model chooses the name); "
                f"its longest prompt had {longest} tokens."
            )
    table = table_of(counts, notes)
    print_table(table, console)
    parts = [_COMMAND, describe_versions(*_pins()), markdown(table)]
    if arguments.print:
        console.print(section(_SECTION, _HEADING, parts), markup=False, soft_wrap=True)
    elif not arguments.only:
        publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
