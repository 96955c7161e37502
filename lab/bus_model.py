"""How fast a model on the bus streams, beside the same model over HTTP: `scripts/long bus-model`."""

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console

from ferrule import Engine, TextDelta, ToolCallRequest, load_engine
from ferrule.bench.tables import Table, markdown, print_table
from lab.bus_server import nats_server
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from lab.servers import MODEL

_COMMAND: Final = "```sh\nscripts/long bus-model\n```"
_SMOL: Final = f"llama:{MODEL}?threads=1&slots=1&context=2048"
_READY: Final = re.compile(r"ready\n|serving on (http://\S+)\s")
_WAY: Final = (
    "Milliseconds between the moment at which an engine in another process writes a word and the moment at which the "
    "caller reads it: a word every five milliseconds, asked by turns over NATS and over HTTP (the gateway, chat "
    "completions, server-sent events)."
)
_REAL: Final = (
    "Milliseconds of SmolLM2-135M on one thread, the same question asked by turns: in this process, in a worker on "
    "NATS, and in a gateway over HTTP. Each has its own copy of the model."
)


@dataclass(slots=True)
class Times:
    """Seconds until the first word of an answer, between its words, of the whole answer, and of a word on its way."""

    first: list[float] = field(default_factory=list[float])
    gaps: list[float] = field(default_factory=list[float])
    total: list[float] = field(default_factory=list[float])
    way: list[float] = field(default_factory=list[float])


@contextmanager
def _process(module: str, *arguments: str) -> Generator[str]:
    """A `ferrule` process that is ready. Yields its URL, if it has one."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = ""
        while (ready := _READY.search(said)) is None:
            line = process.stdout.readline()
            assert line, said
            said += line
        try:
            yield ready[1] or ""
        finally:
            process.terminate()
            process.wait()


async def _ask(engine: Engine, words: int, times: Times, *, has_clock: bool) -> None:
    request = ToolCallRequest(messages="Tell me a story about a lighthouse.", max_tokens=words, temperature=0)
    started = last = time.monotonic()
    async with aclosing(engine.stream_request(request)) as events:
        async for event in events:
            if not isinstance(event, TextDelta):
                continue
            now = time.monotonic()
            if has_clock:
                times.way += [now - int(word) / 1e9 for word in event.text.split()]
            (times.first if last == started else times.gaps).append(now - last)
            last = now
    times.total.append(time.monotonic() - started)


async def _by_turns(engines: Mapping[str, str], asked: int, words: int, *, has_clock: bool) -> dict[str, Times]:
    times = {name: Times() for name in engines}
    async with AsyncExitStack() as stack:
        opened = {name: await stack.enter_async_context(load_engine(engine)) for name, engine in engines.items()}
        for name, engine in opened.items():
            # The first answer also opens connections and reads the prompt.
            await _ask(engine, words, Times(), has_clock=has_clock)
            assert name in times
        for _ in range(asked):
            for name, engine in opened.items():
                await _ask(engine, words, times[name], has_clock=has_clock)
    return times


def _measure(module: str, engine: str, here: str | None, asked: int, words: int) -> dict[str, Times]:
    with ExitStack() as stack:
        nats = stack.enter_context(nats_server()).url
        stack.enter_context(_process(module, "worker", "--engine", engine, "--nats", nats))
        url = stack.enter_context(_process(module, "serve", "--engine", engine, "--port", "0"))
        engines = {
            **({} if here is None else {"in this process": here}),
            "on NATS": f"bus:llm.chat@2.0?nats={nats}",
            "over HTTP": f"openai:default?url={url}/v1&key=none",
        }
        return asyncio.run(_by_turns(engines, asked, words, has_clock=here is None))


def _milliseconds(seconds: list[float], share: float) -> str:
    ordered = sorted(seconds)
    return f"{ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000:.2f}"


def _way_table(times: Mapping[str, Times]) -> Table:
    rows = [
        (name, f"{len(one.way):,}", *(_milliseconds(one.way, share) for share in (0.5, 0.95, 0.99)))
        for name, one in times.items()
    ]
    return Table("A word on its way", _WAY, ("caller", "words", "p50", "p95", "p99"), rows)


def _real_table(times: Mapping[str, Times]) -> Table:
    rows = [
        (
            name,
            f"{statistics.median(one.first) * 1000:.1f}",
            _milliseconds(one.gaps, 0.5),
            _milliseconds(one.gaps, 0.95),
            f"{statistics.median(one.total) * 1000:.0f}",
        )
        for name, one in times.items()
    ]
    columns = ("model", "first word, p50", "next word, p50", "next word, p95", "answer, p50")
    return Table("SmolLM2-135M, 64 tokens", _REAL, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long bus-model", description=__doc__)
    parser.add_argument("answers", nargs="?", type=int, default=15, help="answers by each way (15)")
    parser.add_argument("--print", action="store_true", help="publish nothing")
    options = parser.parse_args()
    console = Console()
    tables = [
        _way_table(_measure("lab.clock_engine", "clock:5", None, options.answers, 200)),
        _real_table(_measure("ferrule", _SMOL, _SMOL, options.answers, 64)),
    ]
    for table in tables:
        print_table(table, console)
    if not options.print:
        parts = [_COMMAND, describe_environment(measured_environment()), *map(markdown, tables)]
        publish("bus-model", "A model on the bus", parts)


if __name__ == "__main__":
    main()
