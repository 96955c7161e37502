"""How often each client's calls were right, run after run: `scripts/long gateway-clients [N]`."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, show
from lab import claude_code
from lab.client_runs import WAYS, Way
from lab.gateway_clients import scene
from lab.gateway_verdicts import Judged
from lab.paths import CACHE
from lab.results_page import publish, section
from lab.versions import counted_with

_SECTION: Final = "gateway-clients"
_HEADING: Final = "Real clients against the gateway"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-clients --npm\nscripts/long gateway-clients 20\n```"
_CLAUDE_CODE: Final = "Claude Code"
_PINNED: Final = ("venvs/client-openai", "venvs/client-anthropic", "venvs/client-agents", "venvs/client-pydantic-ai")


@dataclass(slots=True)
class Count:
    """What the runs of one way came to."""

    client: str
    way: str
    runs: int = 0
    right: int = 0
    calls: int = 0
    streams: int = 0
    events: int = 0
    faults: tuple[str, ...] = ()

    def add(self, judged: Judged) -> None:
        self.runs += 1
        self.right += not judged.faults
        self.calls += judged.calls
        self.streams += judged.streams
        self.events += judged.events
        self.faults = (*self.faults, *judged.faults)

    @property
    def row(self) -> tuple[str, ...]:
        streams = (str(self.streams), str(self.events)) if self.streams else ("", "")
        return (self.client, self.way, f"{self.right} of {self.runs}", str(self.calls), *streams)


def counted(ways: Iterable[Way], runs: int, advance: Callable[[], None] = lambda: None) -> list[Count]:
    """Each way so many times, against one gateway."""
    counts: list[Count] = []
    with scene() as stage:
        for way in ways:
            count = Count(way.client, way.name)
            for _ in range(runs):
                count.add(stage.run(way))
                advance()
            counts.append(count)
    return counts


def claude_code_counted(runs: int, advance: Callable[[], None] = lambda: None) -> tuple[Count, Sequence[int]]:
    """Also how many results of its tool were no error, and the tokens of the longest prompt."""
    count = Count(_CLAUDE_CODE, "one turn with its Read tool, loopback only")
    read, longest = 0, 0
    for told in claude_code.judged(runs):
        count.add(Judged(tuple(told["faults"]), told["streams"], told["events"], told["calls"]))
        read += told["read"]
        longest = max(longest, *told["prompt_tokens"])
        advance()
    return count, (read, longest)


def table_of(counts: Sequence[Count], notes: Sequence[str]) -> Table:
    return Table(
        "Runs in which every call was right",
        "SmolLM2-135M-Instruct, in the gateway's own process, at a temperature of 0.8 (Claude Code: the engine's own). "
        "A run is right when the client raised nothing, at least one call was handed on, every call names an offered "
        "tool and fits the schema that the client sent, each answer is read again by the client's own types with "
        "Pydantic in strict mode, and no stream leaves out what a client cannot do without.",
        ("client", "way", "right", "calls", "streams", "events"),
        [count.row for count in counts],
        [*notes, *(f"{one.client}, {one.way}: {fault}" for one in counts for fault in one.faults[:3])],
        words=2,
    )


def _pins() -> list[str]:
    pinned = [(CACHE / folder / ".pins").read_text(encoding="utf-8").strip() for folder in (*_PINNED, "claude-code")]
    return [*pinned, "SmolLM2-135M-Instruct Q4_1"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long gateway-clients", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("--only", metavar="WORDS", help="only the ways whose client and name hold these words")
    parser.add_argument("--print", action="store_true", help="show the section and leave the page alone")
    arguments = parser.parse_args()
    ways = [way for way in WAYS if not arguments.only or arguments.only in way.told]
    console = Console()
    notes: list[str] = []
    with Progress(console=console) as progress:
        task = progress.add_task("clients", total=arguments.runs * (len(ways) + 1))
        counts = counted(ways, arguments.runs, lambda: progress.advance(task)) if ways else []
        if not arguments.only or arguments.only in _CLAUDE_CODE:
            count, (read, longest) = claude_code_counted(arguments.runs, lambda: progress.advance(task))
            counts.append(count)
            notes.append(
                f"Claude Code: {read} of its {count.calls} calls named a file that was there, which is the model's "
                f"affair; its longest prompt had {longest} tokens."
            )
    table = table_of(counts, notes)
    show(table, console)
    parts = [_COMMAND, counted_with(*_pins()), markdown(table)]
    if arguments.print:
        console.print(section(_SECTION, _HEADING, parts), markup=False, soft_wrap=True)
    elif not arguments.only:
        publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
