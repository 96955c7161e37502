"""Measure a model among hundreds of tools: BFCL's questions with the right tool alone, and with all behind a search.

Each question of `simple_python` is asked three times: with its own tool only, with five tools of which one is its own
and the others are the nearest to the question, and with all tools of `simple_python` and `multiple`, deferred.
`scripts/long many-tools`.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl.categories import select_categories
from ferrule.bench.bfcl.score import Reason, miss_of
from ferrule.bench.bfcl.tasks import Task, load_category, load_tasks
from ferrule.bench.bfcl_requests import data_folder
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine
from ferrule.run.deferral import DeferralSettings
from ferrule.run.deferring_engine import DeferringEngine
from ferrule.sources.search.tool_finder import ToolFinder
from lab.apply_patch import weights_of
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish

_SECTION: Final = "many-tools"
_HEADING: Final = "A model among hundreds of tools"
_COMMAND: Final = (
    "```sh\nscripts/setup-oracles --bfcl\nscripts/setup-weights qwen2.5-coder-0.5b qwen2.5-coder-1.5b\n"
    "scripts/long many-tools {}\n```"
)
_ABOUT: Final = (
    "Questions of BFCL v4, `simple_python`, with `tool_choice: {}`. *Right tool*: the model is given that tool "
    "only. *Five tools*: that one and the four others that fit the question best, in the order of their names, "
    "without a search: what a model loses by the choice among similar tools alone. *Search*: it is given all {} "
    "tools, of which the prompt lists those that fit the question best and `find_tools` (`above_tokens` {}). "
    "*Right* is the share of calls that BFCL's scorer accepts; *other tool*, *no call* and *arguments* count the "
    "rest. BFCL accepts one tool for a question, also where another one does the same. *Searched* is the share of "
    "answers with a search, *prompt* the tokens of the longest prompt of an answer, on average, *read* those of all"
    " its prompts together. All tools in one prompt would take {} tokens."
)
MODELS: Final = ("0.5B", "1.5B")
_CONTEXT: Final = 16_384
_MAX_TOKENS: Final = 300


@dataclass(slots=True)
class Score:
    """What happened to the questions of one row."""

    right: int = 0
    other_tool: int = 0
    no_call: int = 0
    searched: int = 0
    prompts: list[int] = field(default_factory=list[int])
    read: list[int] = field(default_factory=list[int])
    seconds: list[float] = field(default_factory=list[float])

    def row(self, model: str, label: str) -> tuple[str, ...]:
        count = len(self.seconds)
        wrong = count - self.right - self.other_tool - self.no_call
        misses = (str(self.other_tool), str(self.no_call), str(wrong))
        means = (f"{sum(self.prompts) / count:,.0f}", f"{sum(self.read) / count:,.0f}")
        shares = (f"{self.right / count:.3f}", *misses, f"{self.searched / count:.3f}")
        return model, label, str(count), *shares, *means, f"{sum(self.seconds) / count:.1f}"


class CountedEngine(Engine):
    """Counts the tokens of the prompts that an engine reads."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.traits = engine, engine.traits
        self.prompts: list[int] = []

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.prompts.append(await self.engine.count_tokens(request))
        async with aclosing(self.engine.stream_request(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        await self.engine.close()


def all_tools() -> dict[str, ToolDefinition]:
    """The tools of both files by name; of variants of one name, the last."""
    categories = select_categories(("multiple", "simple_python"))
    data = data_folder()
    tasks = [task for category in categories for task in load_category(category, data)]
    return {tool.name: tool for task in tasks for tool in task.question.tools}


async def ask(engine: Engine, task: Task, tools: Sequence[ToolDefinition], choice: str) -> Reply:
    request = task.question.request(ToolChoice(choice), max_tokens=_MAX_TOKENS)
    return await engine.generate_with_tools(replace(request, tools=tuple(tools)))


async def measure(
    engine: CountedEngine,
    tasks: Sequence[Task],
    everything: Mapping[str, ToolDefinition],
    settings: DeferralSettings,
    choice: str,
    progress: Progress,
) -> tuple[Score, ...]:
    scores, finder = (Score(), Score(), Score()), ToolFinder()
    deferring = DeferringEngine(engine, settings, finder)
    bar = progress.add_task(f"{len(tasks)} questions", total=len(scores) * len(tasks))
    for task in tasks:
        own = {tool.name: tool for tool in task.question.tools}
        whole = {**everything, **own}
        sets = ((engine, own), (engine, await nearest(finder, task, own, whole)), (deferring, whole))
        for score, (asked, tools) in zip(scores, sets, strict=True):
            engine.prompts.clear()
            started = time.monotonic()
            reply = await ask(asked, task, list(tools.values()), choice)
            score.seconds.append(time.monotonic() - started)
            score.prompts.append(max(engine.prompts))
            score.read.append(sum(engine.prompts))
            miss = miss_of(task.key, reply.calls)
            score.right += miss is None
            score.other_tool += miss is not None and miss.reason is Reason.FUNCTION
            score.no_call += miss is not None and miss.reason is Reason.NOT_CALLED
            score.searched += bool(reply.searches)
            progress.advance(bar)
    return scores


async def nearest(
    finder: ToolFinder, task: Task, own: Mapping[str, ToolDefinition], whole: Mapping[str, ToolDefinition]
) -> dict[str, ToolDefinition]:
    """The question's own tool and those that fit its words best, five in all; their order says nothing."""
    request = task.question.request(ToolChoice.auto())
    text = " ".join(message.content for message in request.messages if message.role is Role.USER)
    found = [name for name in await finder(text, 5, whole) if name not in own]
    return {name: whole[name] for name in sorted([*own, *found[: 5 - len(own)]])}


async def run(count: int, models: Sequence[str], above_tokens: int, choice: str) -> Table:
    tasks = load_tasks(select_categories(("simple_python",)), count, data_folder())
    everything = all_tools()
    settings = DeferralSettings(above_tokens=above_tokens)
    rows: list[tuple[str, ...]] = []
    all_tokens = 0
    with Progress(console=Console(stderr=True)) as progress:
        for model in models:
            async with TextEngine(LlamaGenerator(weights_of(model), 1, 1, _CONTEXT)) as inner:
                engine = CountedEngine(inner)
                request = replace(tasks[0].question.request(ToolChoice.auto()), tools=tuple(everything.values()))
                all_tokens = await inner.count_tokens(request)
                scores = await measure(engine, tasks, everything, settings, choice, progress)
            rows += [score.row(f"Qwen2.5-Coder-{model}", label) for score, label in zip(scores, _LABELS, strict=True)]
    about = _ABOUT.format(choice, f"{len(everything):,}", f"{above_tokens:,}", f"{all_tokens:,}")
    columns = (
        "model",
        "tools",
        "questions",
        "right",
        "other tool",
        "no call",
        "arguments",
        "searched",
        "prompt",
        "read",
        "seconds each",
    )
    return Table("Calls", about, columns, tuple(rows))


_LABELS: Final = ("right tool", "five tools", "search")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long many-tools")
    parser.add_argument("count", nargs="?", type=int, default=100, metavar="N", help="questions for each row (100)")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this model; may be given twice")
    parser.add_argument("--above", type=int, default=2_000, help="above_tokens (2000)")
    parser.add_argument("--choice", choices=("auto", "required"), default="auto", help="the choice (auto)")
    parser.add_argument("--print", action="store_true", help="print only; the page stays unchanged")
    arguments = parser.parse_args()
    table = asyncio.run(run(arguments.count, arguments.model or MODELS, arguments.above, arguments.choice))
    print_table(table, Console(width=140))
    if not arguments.print:
        shown = str(arguments.count) if arguments.count != 100 else ""
        command = _COMMAND.format(shown).replace(" \n", "\n")
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), markdown(table)])


if __name__ == "__main__":
    main()
