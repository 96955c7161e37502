"""Measure what the hooks for small models mend, and what they disturb: `scripts/long hooks`.

Every task runs without hooks first, while each hook only reports what it would have done. Decoding is greedy, so a task
in which a hook would have done nothing is the same with it. The others run again, with that hook alone.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.call import ToolCall
from ferrule.core.message import ChatMessage
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.llama import llama
from ferrule.engines.text.engine import TextOptions
from ferrule.run.conversation import ToolConversation
from ferrule.run.executor import ToolExecutor
from ferrule.run.hooks import Hook, HookContext
from ferrule.run.small_model_hooks import READY_HOOKS
from ferrule.sources.fake import FakeSource
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.servers import MODEL, QWEN
from lab.versions import describe_versions

_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-weights\nscripts/long hooks --smol {} --qwen {}\n```"
_MODELS: Final[Mapping[str, tuple[Any, TextOptions]]] = {
    "SmolLM2-135M": (MODEL, TextOptions(format="hermes")),
    "Qwen2.5-Coder-0.5B": (QWEN, TextOptions()),
}
_TOKENS: Final = 32
_ROUNDS: Final = 4
_ABOUT: Final = (
    f"One tool and one question for each task, `tool_choice` auto, greedy, {_TOKENS} tokens for each reply, at most "
    f"{_ROUNDS} rounds, in process, one thread. Half of the tasks begin after a first call and its result; one in five "
    "does not say what the tool needs to know. *Faults*: tasks in which the hook had something to do. *Useful "
    "without* and *with* it: of these, the tasks that ended in a text that is not JSON and holds the fact that was "
    "asked for (where the question leaves the fact open: any such text), with no empty argument in a call that ran. "
    "*Mended*: useful only with the hook. *Disturbed*: useful only without it. *Without need*: useful without it, and "
    "the hook did something all the same. A task without a fault is the same with the hook, because each run has an "
    "engine of its own: with a shared prompt cache, greedy decoding is not repeatable. The hint of `echo` was chosen "
    "on SmolLM2's tasks 1, 7, 14 and 18, counted from 0, and JSON after a tag was made a fault after a first run of "
    "its tasks: its figures are too good by that."
)


@dataclass(frozen=True, slots=True)
class Task:
    """A question for one tool. `arguments` are those of its first call. The answer must hold the `fact`, if any."""

    question: str
    tool: ToolDefinition
    arguments: Mapping[str, Any]
    payload: Any
    fact: str = ""
    is_begun: bool = False
    """Whether the first call and its result are already in the conversation."""


def _tool(name: str, about: str, parameter: str) -> ToolDefinition:
    return ToolDefinition.build(name).description(about).parameter(parameter, {"type": "string"}, required=True).done()


_WEATHER: Final = _tool("get_weather", "The weather of a city.", "city")
_CONTACT: Final = _tool("find_contact", "The phone number of a person.", "name")
_ORDERS: Final = _tool("list_orders", "The orders of a customer.", "customer")
_BOOK: Final = _tool("find_book", "The author and year of a book.", "title")
_PRICE: Final = _tool("get_price", "The price of an article.", "article")
_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "get_weather": ("Rome", "Oslo", "Cairo", "Lima", "Paris", "Tokyo", "Quito", "Delhi"),
    "find_contact": ("Ada", "Bob", "Chen", "Dora", "Emil", "Fay", "Gus", "Hana"),
    "list_orders": ("Smith", "Jones", "Meyer", "Rossi", "Silva", "Kim", "Ali", "Novak"),
    "find_book": ("Emma", "Ulysses", "Faust", "Dune", "Hamlet", "Carrie", "Momo", "Persuasion"),
    "get_price": ("lamp", "desk", "chair", "clock", "radio", "kettle", "mirror", "carpet"),
}
_QUESTIONS: Final[Mapping[str, tuple[str, str]]] = {
    # With the name, and without it.
    "get_weather": ("What is the temperature in {}?", "What is the weather there?"),
    "find_contact": ("What is the phone number of {}?", "Find a phone number for me."),
    "list_orders": ("Which item did {} order?", "Show me the orders."),
    "find_book": ("In which year was {} published?", "Look up a book for me."),
    "get_price": ("What does a {} cost?", "How much does it cost?"),
}
_TOOLS: Final = (_WEATHER, _CONTACT, _ORDERS, _BOOK, _PRICE)


def task(number: int) -> Task:
    """Return the task of a number."""
    tool = _TOOLS[number % len(_TOOLS)]
    name = _NAMES[tool.name][(number // len(_TOOLS)) % 8]
    kind = (number // len(_TOOLS) + number) % 4
    known, open_question = _QUESTIONS[tool.name]
    (parameter,) = tool.parameters["properties"]
    figure = 11 + (number * 7) % 29
    payload, fact = _payload(tool.name, name, figure)
    if kind == 3:
        return Task(open_question, tool, {parameter: name}, payload)
    return Task(known.format(name), tool, {parameter: name}, payload, fact, is_begun=kind in (0, 1))


def _payload(tool: str, name: str, figure: int) -> tuple[Any, str]:
    match tool:
        case "get_weather":
            return {"city": name, "temperature_c": figure, "sky": "clear"}, str(figure)
        case "find_contact":
            return {"name": name, "phone": f"555-01{figure}"}, f"01{figure}"
        case "list_orders":
            return [{"id": figure, "item": "lamp", "status": "sent"}], "lamp"
        case "find_book":
            return {"title": name, "author": "A. Writer", "year": 1800 + figure}, str(1800 + figure)
        case _:
            return {"article": name, "price": figure, "currency": "EUR"}, str(figure)


def is_useful(asked: Task, text: str, calls: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a task ended well: see the text above the table."""
    stripped = text.strip().removeprefix("```json").strip("`<").strip()
    if not stripped or stripped[0] in "{[" or stripped.startswith(("tool_", "/tool_")):
        return False
    if any(isinstance(value, str) and not value.strip() for arguments in calls for value in arguments.values()):
        return False
    return asked.fact in text


def _observed(hook: Hook, count: list[str], *, acts: bool) -> Hook:
    """A hook that notes what it does; without `acts` it notes only what it would do."""

    def note(function: Callable[..., Any] | None) -> Any:
        async def run(value: ToolCall | Reply, context: HookContext) -> Any:
            assert function is not None
            answer = await function(value, context)
            if answer is not None:
                count.append(hook.name)
            return answer if acts else None

        return None if function is None else run

    holds = hook.holds_text if acts else None
    return Hook(
        name=hook.name, before_call=note(hook.before_call), after_model=note(hook.after_model), holds_text=holds
    )


async def run_task(model: str, asked: Task, hooks: Sequence[Hook]) -> tuple[str, list[dict[str, Any]]]:
    """Run a task; return its last text, and the arguments of the calls that ran."""

    def behave(name: str, arguments: Mapping[str, Any], context: object) -> Outcome:
        return Answered(asked.payload)

    source = FakeSource((asked.tool,), behave)
    request = ToolCallRequest(messages=(), max_tokens=_TOKENS, temperature=0.0)
    executor = ToolExecutor(source, max_iterations=_ROUNDS)
    messages = [ChatMessage.user(asked.question)]
    if asked.is_begun:
        call = ToolCall.of(asked.tool.name, asked.arguments, id="call_1")
        messages += [Reply.of(call).as_message(), ChatMessage.tool("call_1", json.dumps(asked.payload))]
    path, options = _MODELS[model]
    async with llama(path, options, threads=1, slots=1, context=2048) as engine:
        conversation = ToolConversation(engine, executor, request=request, hooks=hooks)
        async for _ in conversation.answer(messages):
            pass
    return conversation.last.text, [dict(arguments) for _, arguments, _ in source.calls]


async def _measure(model: str, number: int) -> dict[str, dict[str, Any]]:
    """Run one task without hooks and with each that would do something; the results by the hook's name."""
    asked, noted = task(number), list[str]()
    observers = [_observed(hook, noted, acts=False) for hook in READY_HOOKS.values()]
    text, calls = await run_task(model, asked, observers)
    results: dict[str, dict[str, Any]] = {"": {"text": text, "useful": is_useful(asked, text, calls)}}
    for name in sorted(set(noted)):
        acted = list[str]()
        text, calls = await run_task(model, asked, [_observed(READY_HOOKS[name], acted, acts=True)])
        results[name] = {"text": text, "useful": is_useful(asked, text, calls), "times": len(acted)}
    return results


def row(name: str, results: Sequence[Mapping[str, Mapping[str, Any]]]) -> tuple[str, ...]:
    """Return the figures of one hook."""
    pairs = [(bool(one[""]["useful"]), bool(one[name]["useful"])) for one in results if name in one]
    before, after = sum(one for one, _ in pairs), sum(other for _, other in pairs)
    mended, disturbed = pairs.count((False, True)), pairs.count((True, False))
    return (name, *map(str, (len(results), len(pairs), before, after, mended, disturbed, before)))


async def table_of(model: str, count: int, saved: SavedParts, progress: Progress) -> Table:
    bar = progress.add_task(model, total=count)
    results: list[Any] = []
    for number in range(count):
        results.append(await saved.part(f"{model} {number} {_TOKENS} {_ROUNDS}", partial(_measure, model, number)))
        progress.update(bar, completed=number + 1)
    useful = sum(bool(one[""]["useful"]) for one in results)
    columns = ("tasks", "faults", "useful without", "useful with", "mended", "disturbed", "without need")
    return Table(
        f"{model}: {useful} of {count} tasks are useful without hooks",
        "",
        ("hook", *columns),
        [row(name, results) for name in READY_HOOKS],
        [],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long hooks", description=__doc__)
    parser.add_argument("--smol", type=int, default=40, help="tasks for SmolLM2-135M (40)")
    parser.add_argument("--qwen", type=int, default=20, help="tasks for Qwen2.5-Coder-0.5B (20)")
    parser.add_argument("--print", action="store_true", help="only print the results, and keep them for another run")
    arguments = parser.parse_args()
    console, saved = Console(), SavedParts("hooks")
    tables: list[Table] = []
    with Progress(console=console) as progress:
        for model, count in zip(_MODELS, (arguments.smol, arguments.qwen), strict=True):
            if count:
                tables.append(asyncio.run(table_of(model, count, saved, progress)))
                print_table(tables[-1], console)
    if not arguments.print:
        shown = [markdown(table) for table in tables]
        command = _COMMAND.format(arguments.smol, arguments.qwen)
        publish("hooks", "Hooks for small models", [command, describe_versions(), _ABOUT, *shown])
        saved.clear()


if __name__ == "__main__":
    main()
