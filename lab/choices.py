"""Check that every kind of tool choice is honoured in every run, at a high temperature: `scripts/long choices`."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import jsonschema
from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.bench.validity_count import run_concurrently
from ferrule.core.json_text import loads
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.text.engine import TextOptions
from lab.environment import describe_environment, measured_environment
from lab.real_engines import ENGINES
from lab.results_page import publish

_SECTION: Final = "choices"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/long choices 50\n```"
_TEXT: Final = {"type": "string", "maxLength": 24}
TOOLS: Final = (
    ToolDefinition.build("get_weather").description("The weather of a city.").parameter("city", _TEXT, required=True),
    ToolDefinition.build("add").description("Adds.").parameter("a", {"type": "integer"}, required=True),
    ToolDefinition.build("search").description("Searches the web.").parameter("query", _TEXT, required=True),
)
TOOL_DEFINITIONS: Final = tuple(builder.done() for builder in TOOLS)
ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "score": {"type": "integer", "minimum": 0, "maximum": 10}},
    "required": ["mood", "score"],
}
_REQUEST: Final = ToolCallRequest(
    messages=(ChatMessage.user("Find out how the weather in Paris is, search for hotels there, and add 2."),),
    tools=TOOL_DEFINITIONS,
    max_tokens=160,
    temperature=0.9,
)


def _only(*names: str) -> Callable[[Reply], bool]:
    return lambda reply: bool(reply.calls) and {call.name for call in reply.calls} <= {*names}


def _fits(reply: Reply) -> bool:
    """Whether the reply has only calls, or is an answer that matches the schema. A cut-off reply is neither."""
    if reply.calls:
        return not reply.text.strip()
    validator: Any = jsonschema.Draft202012Validator(ANSWER)
    return bool(validator.is_valid(loads(reply.text)))


# Each request, and the condition that every reply must satisfy.
KINDS: Final[Mapping[str, tuple[ToolCallRequest, Callable[[Reply], bool]]]] = {
    "one named tool": (replace(_REQUEST, tool_choice=ToolChoice.one("add")), _only("add")),
    "an allowed subset": (
        replace(_REQUEST, tool_choice=ToolChoice.allowed(("add", "search"), ChoiceMode.REQUIRED)),
        _only("add", "search"),
    ),
    "none": (replace(_REQUEST, tool_choice=ToolChoice.none()), lambda reply: not reply.calls and not reply.incomplete),
    "one call only": (
        replace(_REQUEST, tool_choice=ToolChoice.required(), parallel_tool_calls=False),
        lambda reply: len(reply.calls) == 1,
    ),
    "tools and a response schema": (replace(_REQUEST, response_schema=ANSWER), _fits),
}


async def count_kept(engine: Engine, kind: str, runs: int, advance: Callable[[], None] = lambda: None) -> int:
    """Count the runs in which the choice was honoured; each run has its own seed."""
    request, is_kept = KINDS[kind]
    count = 0

    async def once(seed: int) -> None:
        nonlocal count
        reply = await engine.generate_with_tools(replace(request, seed=seed))
        count += is_kept(reply)
        advance()

    await run_concurrently(4, (once(seed) for seed in range(runs)))
    return count


async def table_of(names: Sequence[str], runs: int, progress: Progress) -> Table:
    cells: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in names:
        task = progress.add_task(name, total=runs * len(KINDS))
        async with ENGINES[name](TextOptions(format="hermes")) as engine:
            for kind in KINDS:
                count = await count_kept(engine, kind, runs, lambda t=task: progress.advance(t))
                cells[kind].append(f"{count} of {runs}")
    return Table(
        f"{runs} runs of each choice",
        "SmolLM2-135M-Instruct, Hermes calls, temperature 0.9, a different seed each time. A choice is honoured if "
        "it allows every call of the reply, and there is a call if one is required; with *none*, there is no call; "
        "with a response schema, there are only calls or a text that matches the schema.",
        ("choice", *names),
        [(kind, *counts) for kind, counts in cells.items()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long choices", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=50)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        table = asyncio.run(table_of(arguments.engine or ["llama", "vllm"], arguments.runs, progress))
    print_table(table, console)
    if not arguments.engine:
        parts = [_COMMAND, describe_environment(measured_environment()), markdown(table)]
        publish(_SECTION, "Tool choices honoured in every run", parts)


if __name__ == "__main__":
    main()
