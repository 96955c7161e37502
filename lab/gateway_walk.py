"""Walk one streamed tool call through the gateway and count what it passes: files, functions, generators, folds.

The CPU of a plain request, of a request with one tool round, of one more event, and of a request with many own tools is
measured in the same run. With `--before CHECKOUT` another version of the code is measured in turn with this one.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.paths import ROOT
from lab.results_page import publish

_CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
_COUNTED = {
    "folds": ("core/reply.py", "ReplyFold.__init__"),
    "parsers": ("wire/parser.py", "Parser.__init__"),
    "validations": ("schema/checker.py", "Checker.faults_of_text"),
}


_FIGURES = ("plain", "event", "tool_round", "own_tools_10", "own_tools_1000")
_ROUNDS = 3
_LABELS = {
    "files": "files that it enters",
    "functions": "functions",
    "generators": "nested async generators",
    "folds": "folds of events",
    "parsers": "parsers",
    "validations": "validations of the arguments",
    "plain": "CPU of a plain streamed request, ms",
    "event": "CPU of one more event, ms",
    "tool_round": "CPU of a request with one tool round, ms",
    "own_tools_10": "CPU of a request with 10 own tools on offer, ms",
    "own_tools_1000": "CPU of a request with 1,000 own tools on offer, ms",
}
_SECTION = "gateway-walk"
_HEADING = "The way of a call through the gateway"
_COMMAND = "```sh\nscripts/bench-walk --before ../other-checkout\n```"
_ABOUT = (
    "A chat request whose tool the gateway runs, streamed, with a scripted generator and a ledger in SQLite: the "
    "second of two equal requests. The least CPU of three rounds in which the two versions took turns. Two folds are "
    "of the two replies; the third, and one of the parsers, proves that the call in the history is rendered right."
)
_READER = "_encode_events"
"""The last generator before the socket. Others are context managers."""


class Walk:
    """Records the functions of the package that run while it is on."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.engine_side: tuple[str, ...] = ()
        self.reader_side: tuple[str, ...] = ()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if not self.is_on or event != "call" or "/ferrule/" not in code.co_filename:
            return
        self.counts[code.co_filename.rpartition("/ferrule/")[2], code.co_qualname] += 1
        if code.co_flags & inspect.CO_ASYNC_GENERATOR:
            self._record_chain(frame)

    def _record_chain(self, frame: FrameType) -> None:
        chain: list[str] = []
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_flags & inspect.CO_ASYNC_GENERATOR and "/ferrule/" in at.f_code.co_filename:
                chain.append(at.f_code.co_qualname)
            at = at.f_back
        if chain[0].endswith(".generate"):
            self.engine_side = max(self.engine_side, tuple(chain), key=len)
        elif chain[-1] == _READER:
            self.reader_side = max(self.reader_side, tuple(chain), key=len)


def scripted_text_engine(answers: list[str], size: int = 4) -> Any:
    from ferrule.engines.fake import FakeGenerator
    from ferrule.engines.text.engine import TextEngine, TextOptions

    return TextEngine(FakeGenerator(answers, size=size), TextOptions(format="hermes"))


def _weather_tool() -> Any:
    from ferrule import tool

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    return weather


def many_tools(count: int) -> list[Any]:
    from ferrule import tool

    def make(number: int) -> Any:
        def lookup(key: str, limit: int = 10, mode: str = "exact") -> str:
            return key

        lookup.__name__ = f"lookup_{number}"
        lookup.__doc__ = f"Looks up a value in table {number}, by its key."
        return tool(lookup)

    return [make(number) for number in range(count)]


def chat_body(text: str = "weather in Paris?", **fields: object) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True, **fields}


async def walk_call() -> dict[str, Any]:
    """Count what the second of two equal requests passes; the first one warms the caches."""
    from ferrule.sources.functions import Functions
    from server.client import gateway_of

    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        async with gateway_of(
            scripted_text_engine([_CALL, "It is sunny."] * 2), sources=[Functions([_weather_tool()])]
        ) as client:
            await client.post("/v1/chat/completions", chat_body())
            walk.is_on = True
            response = await client.post("/v1/chat/completions", chat_body())
            walk.is_on = False
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert response.status == 200, response.body
    chain = (*walk.engine_side, *walk.reader_side)
    return {
        "functions": len(walk.counts),
        "files": len({file for file, _ in walk.counts}),
        "generators": len(chain),
        "chain": chain,
        **{name: walk.counts[place] for name, place in _COUNTED.items()},
        "entered": sorted({file for file, _ in walk.counts}),
    }


async def _cpu_per_request(client: Any, body: dict[str, Any], count: int) -> float:
    for _ in range(3):
        await client.post("/v1/chat/completions", body)
    started = time.process_time()
    for _ in range(count):
        response = await client.post("/v1/chat/completions", body)
        assert response.status == 200, response.body
    return (time.process_time() - started) / count * 1000


async def measure_cpu(count: int) -> dict[str, float]:
    """The CPU of requests in milliseconds."""
    from ferrule.sources.functions import Functions
    from server.client import gateway_of

    figures: dict[str, float] = {}
    async with gateway_of(scripted_text_engine(["hello there " * 4] * (count + 3), 48)) as client:
        figures["plain"] = await _cpu_per_request(client, chat_body("hi"), count)
    async with gateway_of(scripted_text_engine(["word " * 400] * (count + 3), 5)) as client:
        long = await _cpu_per_request(client, chat_body("hi"), count)
    figures["event"] = (long - figures["plain"]) / 399
    answers = [_CALL, "It is sunny."] * (count + 3)
    async with gateway_of(scripted_text_engine(answers), sources=[Functions([_weather_tool()])]) as client:
        figures["tool_round"] = await _cpu_per_request(client, chat_body(), count)
    for tools in (10, 1000):
        some = max(5, count // 5)
        engine = scripted_text_engine(["It is sunny."] * (some + 3))
        async with gateway_of(engine, sources=[Functions(many_tools(tools))]) as client:
            figures[f"own_tools_{tools}"] = await _cpu_per_request(client, chat_body("hi"), some)
    return figures


def _measure(checkout: Path, count: int) -> dict[str, Any]:
    """Measure a checkout in a process of its own. The code of this module measures both."""
    path = os.pathsep.join(map(str, (checkout / "src", ROOT, checkout / "tests")))
    command = [sys.executable, __file__, "--json", "--count", str(count)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def _best(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts, and the least CPU of each figure: other programs can only add to it."""
    cpu = {name: min(one["cpu_ms"][name] for one in measured) for name in _FIGURES}
    return {**measured[0], **cpu}


def _table(checkouts: Mapping[str, Path], count: int) -> Table:
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in checkouts}
    for _ in range(_ROUNDS):
        for name, checkout in checkouts.items():
            measured[name].append(_measure(checkout, count))
    best = {name: _best(rounds) for name, rounds in measured.items()}
    rows = tuple((label, *(f"{one[key]:g}" for one in best.values())) for key, label in _LABELS.items())
    return Table("One streamed tool call through the gateway", _ABOUT, ("", *checkouts), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="requests per figure")
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--files", action="store_true", help="list the files that the call enters")
    parser.add_argument("--json", action="store_true", help="print the figures of the code on the path as JSON")
    parser.add_argument("--publish", action="store_true", help="write the table to the results page")
    options = parser.parse_args()
    if options.files:
        print("\n".join(asyncio.run(walk_call())["entered"]))
        return
    if options.json:
        report = asyncio.run(walk_call())
        print(json.dumps({**report, "cpu_ms": asyncio.run(measure_cpu(options.count))}))
        return
    checkouts = {"before": options.before.resolve()} if options.before else {}
    table = _table({**checkouts, "now": ROOT}, options.count)
    print_table(table, Console())
    if options.publish:
        publish(_SECTION, _HEADING, [_COMMAND, describe_environment(measured_environment()), markdown(table)])


if __name__ == "__main__":
    main()
