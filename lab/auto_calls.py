"""Count calls that a model prints under `auto` and that nobody reads: `scripts/long auto`.

The same questions of BFCL go to Ferrule and to llama.cpp's own tool calling, on the same weights and template. Replies
are saved with their text, so that a stopped run resumes, and so that other readers can read the same text: Ferrule
without `reads_drift`, and the rescue of forge-guardrails, if scripts/setup-forge has installed it.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl.categories import Scoring, select_categories
from ferrule.bench.bfcl.run import Bar, Group, render_chart
from ferrule.bench.bfcl.score import miss_of
from ferrule.bench.bfcl.summary import CategoryScore
from ferrule.bench.bfcl.tasks import Task, load_tasks
from ferrule.bench.bfcl_requests import data_folder
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.bench.validity_count import problem_of, run_concurrently
from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import FinishReason
from ferrule.core.request import ToolChoice
from ferrule.engines.http import HttpClient
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine
from ferrule.errors import FerruleError
from lab import servers
from lab.environment import describe_environment, measured_environment
from lab.native_calls import native_body
from lab.paths import CACHE
from lab.results_page import PAGE, publish
from lab.saved_parts import SavedParts

_SECTION: Final = "auto"
_HEADING: Final = "Calls under auto, and who reads them"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-weights {}\nscripts/setup-forge\nscripts/long auto{}\n```"
_FORGE: Final = CACHE / "venvs" / "forge" / "bin" / "python"
_RESCUE: Final = Path(__file__).parent / "peers" / "forge_rescue_worker.py"
_SIDES: Final = ("Ferrule", "llama.cpp")
_SLOTS: Final = 2
_FEWEST: Final = 5
"""A side with fewer saved replies has no row."""
_CONTEXT: Final = 4096


@dataclass(frozen=True, slots=True)
class Replied:
    """What one side made of a model's reply. `drifted` counts the calls that were read in another spelling."""

    id: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    drifted: int = 0
    is_cut_off: bool = False
    tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Model:
    """Weights, and how many questions with and without a call as answer they are asked unless told otherwise."""

    weights: Path
    count: int
    irrelevant: int


_MODELS: Final = {
    "qwen2.5-coder-0.5b": _Model(servers.QWEN, 200, 200),
    "qwen2.5-coder-1.5b": _Model(servers.LARGER_QWEN, 100, 100),
}

Ask = Callable[[Task, str], Awaitable[Replied]]


@dataclass(frozen=True, slots=True)
class Run:
    """The replies of one side to one kind of tool choice."""

    side: str
    choice: str
    replies: dict[str, Replied]


async def _ask_ferrule(engine: TextEngine, max_tokens: int, task: Task, choice: str) -> Replied:
    wanted = ToolChoice.required() if choice == "required" else ToolChoice.auto()
    try:
        reply = await engine.generate_with_tools(task.question.request(wanted, max_tokens))
    except FerruleError as refusal:
        return Replied(task.id, "", error=refusal.code)
    calls = tuple((call.name, call.function.arguments) for call in reply.calls)
    drifted = sum(bool(call.receipt and call.receipt.drifted) for call in reply.calls)
    tokens = reply.usage.completion_tokens if reply.usage else 0
    return Replied(task.id, reply.text, calls, drifted, reply.finish is FinishReason.LENGTH, tokens)


async def _ask_native(http: HttpClient, max_tokens: int, task: Task, choice: str) -> Replied:
    try:
        answer = await http.post("/v1/chat/completions", native_body(task.question, choice, max_tokens))
    except FerruleError as refusal:
        return Replied(task.id, "", error=refusal.code)
    chosen = answer["choices"][0]
    calls = tuple(
        (call["function"]["name"], call["function"]["arguments"]) for call in chosen["message"].get("tool_calls") or ()
    )
    text, tokens = chosen["message"].get("content") or "", answer["usage"]["completion_tokens"]
    return Replied(task.id, text, calls, 0, chosen["finish_reason"] == "length", tokens)


def _part(model: str, max_tokens: int, side: str, choice: str, task: Task) -> str:
    return f"{model} {max_tokens} {side} {choice} {task.id}"


def _saved_reply(saved: SavedParts, part: str) -> Replied | None:
    value = saved.get(part)
    if value is None:
        return None
    calls = tuple((name, text) for name, text in value["calls"])
    return replace(Replied(**value), calls=calls)


async def _ask_all(
    saved: SavedParts, parts: Mapping[str, Task], ask: Ask, choice: str, advance: Callable[[], None]
) -> None:
    async def one(part: str, task: Task) -> None:
        async def measure() -> dict[str, Any]:
            return asdict(await ask(task, choice))

        await saved.part(part, measure)
        advance()

    await run_concurrently(_SLOTS, (one(part, task) for part, task in parts.items()))


async def _measure(
    model: str, tasks: Sequence[Task], max_tokens: int, saved: SavedParts, progress: Progress, *, only_saved: bool
) -> list[Run]:
    """Ask all questions that have no saved reply. One side after the other, because they share the cores."""
    weights = _MODELS[model].weights
    with_answer = [task for task in tasks if task.category.scoring is Scoring.SAME_CALLS]
    plan = {
        (side, choice): {_part(model, max_tokens, side, choice, task): task for task in asked}
        for side in _SIDES
        for choice, asked in (("auto", list(tasks)), ("required", with_answer))
    }
    bars = {key: progress.add_task(f"{model}: {', '.join(key)}", total=len(parts)) for key, parts in plan.items()}
    for side in _SIDES:
        mine = {key: parts for key, parts in plan.items() if key[0] == side}
        async with AsyncExitStack() as stack:
            if only_saved or all(saved.get(part) for parts in mine.values() for part in parts):
                ask = None
            elif side == "Ferrule":
                generator = LlamaGenerator(weights, threads=1, slots=_SLOTS, context=_CONTEXT)
                engine = await stack.enter_async_context(TextEngine(generator))
                ask = partial(_ask_ferrule, engine, max_tokens)
            else:
                url = stack.enter_context(servers.llama_server(None, _SLOTS, _CONTEXT, weights=weights))
                http = HttpClient(url)
                stack.push_async_callback(http.close)
                ask = partial(_ask_native, http, max_tokens)
            for key, parts in mine.items():
                if ask:
                    await _ask_all(saved, parts, ask, key[1], lambda bar=bars[key]: progress.advance(bar))
                else:
                    progress.advance(bars[key], len(parts))
    runs: list[Run] = []
    for (side, choice), parts in plan.items():
        replies = {task.id: reply for part, task in parts.items() if (reply := _saved_reply(saved, part))}
        if len(replies) >= _FEWEST:
            runs.append(Run(side, choice, replies))
    return runs


def _without_drift(run: Run) -> Run:
    """What Ferrule hands on with `reads_drift=False`: the model's words are the same."""
    blind = {
        id: replace(reply, calls=(), text=_printed_form(reply)) if reply.drifted else reply
        for id, reply in run.replies.items()
    }
    return Run("Ferrule, reads_drift=false", run.choice, blind)


def _printed_form(reply: Replied) -> str:
    return reply.text + "".join(json.dumps({"name": name, "arguments": {}}) for name, _ in reply.calls)


def _rescued(run: Run, tasks: Sequence[Task]) -> Run | None:
    """forge's rescue of the text that llama.cpp returned; None if it is not installed."""
    if not _FORGE.exists():
        return None
    asked = [task for task in tasks if task.id in run.replies]
    lines = [
        json.dumps({"text": run.replies[task.id].text, "tools": [tool.name for tool in task.question.tools]})
        for task in asked
    ]
    out = subprocess.run([_FORGE, _RESCUE], input="\n".join(lines), text=True, check=True, capture_output=True).stdout
    replies: dict[str, Replied] = {}
    for task, line in zip(asked, out.splitlines(), strict=True):
        reply = run.replies[task.id]
        calls = tuple((name, json.dumps(arguments)) for name, arguments in json.loads(line))
        replies[task.id] = reply if reply.calls or not calls else replace(reply, calls=calls, text="")
    return Run("llama.cpp, forge's rescue", run.choice, replies)


def prints_a_call(task: Task, text: str) -> bool:
    """Whether the text holds a call of an offered tool. A model also repeats definitions, which have a description."""
    names = "|".join(re.escape(tool.name) for tool in task.question.tools)
    return bool(re.search(rf'"name"\s*:\s*"({names})"\s*,\s*"(arguments|parameters)"\s*:\s*\{{', text))


@dataclass(frozen=True, slots=True)
class Counts:
    """What one run made of its questions."""

    asked: int
    called: int
    printed: int
    invalid: int
    score: CategoryScore
    not_asked_to: int
    false_calls: int
    false_prints: int

    @staticmethod
    def of(run: Run, tasks: Sequence[Task]) -> "Counts":
        score = CategoryScore()
        called = printed = invalid = false_calls = false_prints = 0
        known = [task for task in tasks if task.id in run.replies]
        wanted = [task for task in known if task.category.scoring is Scoring.SAME_CALLS]
        others = [task for task in known if task.category.scoring is Scoring.NO_CALL]
        for task in wanted:
            reply = run.replies[task.id]
            calls = [ToolCall("", FunctionCall(name, text)) for name, text in reply.calls]
            called += bool(calls)
            printed += not calls and prints_a_call(task, reply.text)
            invalid += any(problem_of(task.question, name, _json(text)) for name, text in reply.calls)
            score.answered += 1
            score.right += miss_of(task.key, calls) is None
        for task in others:
            reply = run.replies[task.id]
            false_calls += bool(reply.calls)
            false_prints += not reply.calls and prints_a_call(task, reply.text)
        return Counts(len(wanted), called, printed, invalid, score, len(others), false_calls, false_prints)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _table(model: str, runs: Sequence[Run], tasks: Sequence[Task], max_tokens: int) -> Table:
    rows: list[tuple[str, ...]] = []
    for run in runs:
        counts = Counts.of(run, tasks)
        irrelevant = f"{counts.false_calls} of {counts.not_asked_to}" if counts.not_asked_to else "-"
        rows.append(
            (
                *(run.side, run.choice, f"{counts.called} of {counts.asked}", str(counts.printed), str(counts.invalid)),
                f"{counts.score.right} ({100 * counts.score.share:.0f}%)",
                *(irrelevant, str(counts.false_prints) if counts.not_asked_to else "-"),
            )
        )
    return Table(
        f"{model}: questions of BFCL v4, at most {max_tokens} tokens",
        "*called*: replies with a call. *printed*: replies that hold a call of an offered tool as text. *invalid*: "
        "replies with a call that does not match its schema according to `jsonschema`. *right*: correct by BFCL's "
        "rules. *false calls*: calls on the questions of `irrelevance`, where no tool helps; *printed there*: such "
        "calls as text.",
        ("by", "choice", "called", "printed", "invalid", "right", "false calls", "printed there"),
        rows,
        text_columns=2,
    )


def _chart(tables: Mapping[str, Sequence[Run]], asked: Mapping[str, Sequence[Task]]) -> str:
    known = {f"{run.side}, {run.choice}" for runs in tables.values() for run in runs}
    sides = ("Ferrule, auto", "Ferrule, required", "llama.cpp, auto", "llama.cpp, required")
    series = tuple(side for side in sides if side in known)
    groups: list[Group] = []
    for model, runs in tables.items():
        bars: dict[str, Bar] = {}
        for run in runs:
            score = Counts.of(run, asked[model]).score
            bars[f"{run.side}, {run.choice}"] = Bar(score.share, *score.interval, f"{score.right} of {score.answered}")
        groups.append(Group(model, tuple(bars[name] for name in series)))
    return render_chart("Right calls", "BFCL v4, simple and multiple, the same weights and template", series, groups)


def _all_runs(model: str, runs: Sequence[Run], tasks: Sequence[Task]) -> list[Run]:
    by_name = {(run.side, run.choice): run for run in runs}
    ours, native = by_name["Ferrule", "auto"], by_name["llama.cpp", "auto"]
    forge = _rescued(native, tasks)
    extra = [_without_drift(ours), *([forge] if forge else [])]
    return sorted([*runs, *extra], key=lambda run: (run.choice, run.side))


def _tasks(model: _Model, count: int | None, irrelevant: int | None) -> list[Task]:
    """The questions of a model. None: as many as it is asked by default."""
    tasks = load_tasks(select_categories(["simple_python", "multiple"]), count or model.count, data_folder())
    others = model.irrelevant if irrelevant is None else irrelevant
    return tasks + (load_tasks(select_categories(["irrelevance"]), others, data_folder()) if others else [])


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long auto", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, help="how many questions with a call as answer (200 or 100)")
    parser.add_argument("--irrelevant", type=int, metavar="N", help="how many without (default: as many)")
    parser.add_argument("--model", action="append", choices=tuple(_MODELS), help="default: all")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--saved", action="store_true", help="ask nothing: publish what an interrupted run has saved")
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    arguments = parser.parse_args()
    models = arguments.model or list(_MODELS)
    console, saved = Console(), SavedParts(_SECTION)
    tables: dict[str, Sequence[Run]] = {}
    asked: dict[str, list[Task]] = {}
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        for model in models:
            tasks = asked[model] = _tasks(_MODELS[model], arguments.count, arguments.irrelevant)
            runs = asyncio.run(
                _measure(model, tasks, arguments.max_tokens, saved, progress, only_saved=arguments.saved)
            )
            tables[model] = _all_runs(model, runs, tasks)
    parts: list[str] = []
    for model, runs in tables.items():
        table = _table(model, runs, asked[model], arguments.max_tokens)
        print_table(table, console)
        parts.append(markdown(table))
    if not arguments.print:
        images = PAGE.parent / "images"
        images.mkdir(parents=True, exist_ok=True)
        (images / "auto.svg").write_text(_chart(tables, asked), encoding="utf-8")
        size = "".join(f" {option}" for option in sys.argv[1:])
        command = _COMMAND.format(" ".join(models), size)
        picture = "![share of right calls by model and reader](images/auto.svg)"
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), picture, *parts])


if __name__ == "__main__":
    main()
