"""Whether each kind of choice is held, run after run, at a temperature where a model strays: `scripts/long choices`."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import jsonschema
from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, show
from ferrule.bench.validity_count import in_width
from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.json_text import loads
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.text.engine import TextOptions
from lab.environment import circumstances, told
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
OFFERED: Final = tuple(builder.done() for builder in TOOLS)
ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "score": {"type": "integer", "minimum": 0, "maximum": 10}},
    "required": ["mood", "score"],
}
_ASKED: Final = ToolCallRequest(
    messages=(ChatMessage.user("Find out how the weather in Paris is, search for hotels there, and add 2."),),
    tools=OFFERED,
    max_tokens=160,
    temperature=0.9,
)


def _only(*names: str) -> Callable[[Reply], bool]:
    return lambda reply: bool(reply.calls) and {call.name for call in reply.calls} <= {*names}


def _fits(reply: Reply) -> bool:
    """One call or several, or an answer that fits; what was cut off is neither."""
    if reply.calls:
        return not reply.text.strip()
    validator: Any = jsonschema.Draft202012Validator(ANSWER)
    return bool(validator.is_valid(loads(reply.text)))


# What is asked, and what must be true of every reply.
KINDS: Final[Mapping[str, tuple[ToolCallRequest, Callable[[Reply], bool]]]] = {
    "one named tool": (replace(_ASKED, tool_choice=ToolChoice.one("add")), _only("add")),
    "an allowed subset": (
        replace(_ASKED, tool_choice=ToolChoice.allowed(("add", "search"), ChoiceMode.REQUIRED)),
        _only("add", "search"),
    ),
    "none": (replace(_ASKED, tool_choice=ToolChoice.none()), lambda reply: not reply.calls and not reply.incomplete),
    "one call only": (
        replace(_ASKED, tool_choice=ToolChoice.required(), parallel_tool_calls=False),
        lambda reply: len(reply.calls) == 1,
    ),
    "tools beside a bound answer": (replace(_ASKED, response_schema=ANSWER), _fits),
}


async def held(engine: Engine, kind: str, runs: int, advance: Callable[[], None] = lambda: None) -> int:
    """In how many of the runs the choice was held; each run has a seed of its own."""
    request, is_held = KINDS[kind]
    count = 0

    async def once(seed: int) -> None:
        nonlocal count
        reply = await engine.generate_with_tools(replace(request, seed=seed))
        count += is_held(reply)
        advance()

    await in_width(4, (once(seed) for seed in range(runs)))
    return count


async def table_of(names: Sequence[str], runs: int, progress: Progress) -> Table:
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in names:
        task = progress.add_task(name, total=runs * len(KINDS))
        async with ENGINES[name](TextOptions(format="hermes")) as engine:
            for kind in KINDS:
                count = await held(engine, kind, runs, lambda t=task: progress.advance(t))
                found[kind].append(f"{count} of {runs}")
    return Table(
        f"{runs} runs of each choice",
        "SmolLM2-135M-Instruct, Hermes calls, temperature 0.9, another seed each time. Held: every call of the reply "
        "is one that the choice allows, and there is one where one is demanded; with *none*, there is none; beside a "
        "bound answer, calls alone or a text that fits the schema.",
        ("choice", *names),
        [(kind, *counts) for kind, counts in found.items()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long choices", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=50)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        table = asyncio.run(table_of(arguments.engine or ["llama", "vllm"], arguments.runs, progress))
    show(table, console)
    if not arguments.engine:
        parts = [_COMMAND, told(circumstances()), markdown(table)]
        publish(_SECTION, "Choices, held run after run", parts)


if __name__ == "__main__":
    main()
