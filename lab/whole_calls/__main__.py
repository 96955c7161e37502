"""Check that long writes of coding agents arrive whole or not at all: `scripts/long whole-calls`.

A scripted model copies a file into a call of the agent's own write tool, in several formats, through the engine and
through the gateway's streams. Then a real model does.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import UnrenderableError
from ferrule.formats import Format, all_formats, render
from lab.api_answers import APIS, Answer, Question, ask_api, ask_engine
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.versions import describe_versions
from lab.whole_calls.agent_tools import AGENTS, Agent, with_recorded_tools
from lab.whole_calls.contents import KINDS, content
from lab.whole_calls.echo import EchoGenerator, admits
from lab.whole_calls.real_writes import MODELS, real_table
from laws.replies import own_markers
from server.client import gateway_of

FORMATS: Final = (
    *("hermes", "llama3", "mistral_v13", "mistral_v3", "qwen_xml", "pythonic", "harmony", "deepseek_v31"),
    *("glm47", "kimi_k2", "gemma4", "dsml_v4"),
)
CHOICES: Final = ("auto", "required", "")
"""The empty one stands for the name of the tool."""
WAYS: Final = {100: 4, 10_000: 2, 60_000: 1}
"""How many of the four ways (the engine, three APIs) each write takes: a long one takes minutes on a busy machine."""
_ENOUGH: Final = 100_000
_MORE: Final = "x"
_COMMAND: Final = "```sh\nscripts/setup-weights\nscripts/long whole-calls{}\n```"
_ABOUT: Final = (
    "The default tool sets of Codex, Claude Code and opencode (names and schemas as those clients send them, without "
    "descriptions). A scripted model copies a file into the write tool's call, token by token in Qwen2.5's vocabulary. "
    "llguidance's matcher accepts each token under the request's grammar; the whole mask is computed near both ends of "
    "the text, at markers, and at every 32nd token. The answer is read from the engine's reply, or from the events of "
    "the gateway's stream in one of three APIs: 100 B in all four ways, 10 kB in two of them and 60 kB in one, in "
    "turn. Contents in turn: prose, quotes, backslashes, line ends, scripts, code, markers of the format; tool choices "
    "in turn: auto, required, named. U+007F is not among the contents: llguidance's JSON strings admit it only as an "
    "escape, so that a model which writes it raw is kept from it. *Whole*: the arguments are what was written, to the "
    "byte. *Cut*: a second run with a third of the tokens; it must end with the reason `length` and without a call. "
    "*Lost*: anything else. *Bounded*: whole calls after whose value the grammar would not have admitted one more "
    "character. *Unwritable*: the format writes values raw and the content holds its end marker; code or prose takes "
    "its place."
)


@dataclass(slots=True)
class Tally:
    """The results of one format and size."""

    whole: int = 0
    cut: int = 0
    lost: list[str] = field(default_factory=list[str])
    bounded: int = 0
    unwritable: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """One write: what it contains, and the call's text in a format."""

    agent: Agent
    value: str
    arguments: dict[str, Any]
    text: str
    longer: str


def _render(form: Format, agent: Agent, value: str) -> str:
    call = ToolCall.of(agent.write, agent.arguments(value), id=form.ids.sample(agent.write, 0))
    return render(form, Reply.of(call), agent.tools)


def write_of(form: Format, agent: Agent, kind: str, size: int, tally: Tally) -> Write:
    markers = tuple(sorted(own_markers(form)))
    for each in (kind, "code", "prose"):
        value = content(each, size, f"{form.name} {agent.name}", markers)
        try:
            text, longer = _render(form, agent, value), _render(form, agent, value + _MORE)
        except UnrenderableError:
            tally.unwritable += 1
            continue
        return Write(agent, value, agent.arguments(value), text, longer)
    raise UnrenderableError(f"{form.name} cannot write prose", where=kind)


async def _ask(engine: TextEngine, client: Any, way: str, question: Question) -> Answer:
    if way == "engine":
        return await ask_engine(engine, question)
    return await ask_api(client, way, question, is_streamed=True)


async def check_format(name: str, agents: Sequence[Agent], progress: Progress) -> dict[str, Any]:
    """The tallies of one format by size, as JSON."""
    form = all_formats()[name]
    tallies = {size: Tally() for size in WAYS}
    generator = EchoGenerator(form)
    engine = TextEngine(generator, TextOptions(format=name))
    turn = list(all_formats()).index(name)
    ways = ("engine", *APIS)
    task = progress.add_task(name, total=len(agents) * sum(WAYS.values()))
    async with gateway_of(engine) as client:
        for size, agent in product(WAYS, agents):
            for _ in range(WAYS[size]):
                way, kind, choice = ways[turn % len(ways)], KINDS[turn % len(KINDS)], CHOICES[turn % len(CHOICES)]
                turn += 1
                tally = tallies[size]
                write = write_of(form, agent, kind, size, tally)
                label = f"{name}, {agent.name}, {size} B, {way}, {choice or 'named'}, {kind}"
                generator.text, generator.value = write.text, write.value
                question = Question("Write the file.", agent.tools, choice or agent.write, _ENOUGH)
                answer = await _ask(engine, client, way, question)
                if list(answer.calls) == [(agent.write, write.arguments)] and not answer.error:
                    tally.whole += 1
                    tally.bounded += not admits(
                        generator.grammar, write.longer, write.value + _MORE, generator.vocabulary
                    )
                else:
                    tally.lost.append(f"{label}: {_describe(answer)}")
                budget = max(1, generator.tokens // 3)
                cut = await _ask(engine, client, way, replace(question, max_tokens=budget))
                if not cut.calls and cut.finish == "length":
                    tally.cut += 1
                else:
                    tally.lost.append(f"{label}, cut: {_describe(cut)}")
                progress.advance(task)
    return {str(size): asdict(tally) for size, tally in tallies.items()}


def _describe(answer: Answer) -> str:
    return f"{len(answer.calls)} calls, finish {answer.finish!r}, error {answer.error!r}"


async def scripted_table(names: Sequence[str], agents: Sequence[Agent], saved: SavedParts, progress: Progress) -> Table:
    rows: list[tuple[str, ...]] = []
    sums: Counter[str] = Counter()
    lost: list[str] = []
    for name in names:
        tallies = await saved.part(f"scripted {name}", partial(check_format, name, agents, progress))
        counts = {f"whole, {size} B": int(tally["whole"]) for size, tally in tallies.items()}
        counts |= {key: sum(tally[key] for tally in tallies.values()) for key in ("cut", "bounded", "unwritable")}
        lines = [line for tally in tallies.values() for line in tally["lost"]]
        lost += lines
        counts["lost"] = len(lines)
        sums.update(counts)
        rows.append((name, *map(str, counts.values())))
    rows.append(("total", *map(str, sums.values())))
    runs = sum(count for key, count in sums.items() if key not in ("bounded", "unwritable"))
    return Table(f"{runs} writes by a scripted model", _ABOUT, ("format", *sums), rows, lost)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long whole-calls", description=__doc__)
    parser.add_argument("--format", action="append", help="only these formats; 'all' for every one")
    parser.add_argument("--recorded", type=Path, help="a folder of recorded requests whose tools replace ours")
    parser.add_argument("--real", type=int, default=4, help="writes of each agent and size by each real model (4)")
    parser.add_argument("--model", action="append", choices=tuple(MODELS), help="only these real models")
    parser.add_argument("--print", action="store_true", help="only print the results, and keep them for another run")
    arguments = parser.parse_args()
    agents = [with_recorded_tools(one, arguments.recorded) if arguments.recorded else one for one in AGENTS]
    names = arguments.format or FORMATS
    names = list(all_formats()) if "all" in names else names
    console = Console()
    saved = SavedParts("whole-calls")
    with Progress(console=console) as progress:
        tables = [asyncio.run(scripted_table(names, agents, saved, progress))]
        print_table(tables[0], console)
        if arguments.real:
            tables.append(asyncio.run(real_table(arguments.model or MODELS, agents, arguments.real, saved, progress)))
            print_table(tables[1], console)
    if not (arguments.format or arguments.print):
        command = _COMMAND.format("".join(f" {argument}" for argument in sys.argv[1:]))
        publish("whole-calls", "Long calls arrive whole", [command, describe_versions(), *map(markdown, tables)])
        saved.clear()
    sys.exit(any(table.notes for table in tables))


if __name__ == "__main__":
    main()
