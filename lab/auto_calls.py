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
from collections.abc import Awaitable, Callable, Sequence
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

_SECTION: Final = "auto"
_HEADING: Final = "Calls under auto, and who reads them"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-weights {}\nscripts/setup-forge\nscripts/long auto {}\n```"
_FORGE: Final = CACHE / "venvs" / "forge" / "bin" / "python"
_RESCUE: Final = Path(__file__).parent / "peers" / "forge_rescue_worker.py"
_MODELS: Final = {"qwen2.5-coder-0.5b": servers.QWEN, "qwen2.5-coder-1.5b": servers.LARGER_QWEN}
_SLOTS: Final = 2
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


def _load(path: Path) -> dict[str, Replied]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    replies = [Replied(**json.loads(line)) for line in lines]
    return {one.id: replace(one, calls=tuple((name, text) for name, text in one.calls)) for one in replies}


async def _ask_all(path: Path, tasks: Sequence[Task], ask: Ask, choice: str, advance: Callable[[], None]) -> None:
    known = _load(path)

    async def one(task: Task) -> None:
        if task.id not in known:
            replied = await ask(task, choice)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(replied)) + "\n")
        advance()

    await run_concurrently(_SLOTS, (one(task) for task in tasks))


async def _measure(model: str, tasks: Sequence[Task], max_tokens: int, progress: Progress) -> list[Run]:
    """Ask all questions that have no saved reply. One side after the other, because they share the cores."""
    weights = _MODELS[model]
    folder = CACHE / "results" / "auto" / f"{model}-{max_tokens}"
    folder.mkdir(parents=True, exist_ok=True)
    with_answer = [task for task in tasks if task.category.scoring is Scoring.SAME_CALLS]
    plan = [
        (side, choice, asked, folder / f"{side}-{choice}.jsonl")
        for side in ("Ferrule", "llama.cpp")
        for choice, asked in (("auto", list(tasks)), ("required", with_answer))
    ]
    bars = {path: progress.add_task(f"{side}, {choice}", total=len(asked)) for side, choice, asked, path in plan}
    for side in ("Ferrule", "llama.cpp"):
        mine = [entry for entry in plan if entry[0] == side]
        if all(task.id in _load(path) for _, _, asked, path in mine for task in asked):
            for _, _, asked, path in mine:
                progress.advance(bars[path], len(asked))
            continue
        async with AsyncExitStack() as stack:
            if side == "Ferrule":
                generator = LlamaGenerator(weights, threads=1, slots=_SLOTS, context=_CONTEXT)
                engine = await stack.enter_async_context(TextEngine(generator))
                ask: Ask = partial(_ask_ferrule, engine, max_tokens)
            else:
                url = stack.enter_context(servers.llama_server(None, _SLOTS, _CONTEXT, weights=weights))
                http = HttpClient(url)
                stack.push_async_callback(http.close)
                ask = partial(_ask_native, http, max_tokens)
            for _, choice, asked, path in mine:
                await _ask_all(path, asked, ask, choice, lambda bar=bars[path]: progress.advance(bar))
    return [Run(side, choice, _load(path)) for side, choice, _, path in plan]


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
        wanted = [task for task in tasks if task.category.scoring is Scoring.SAME_CALLS]
        others = [task for task in tasks if task.category.scoring is Scoring.NO_CALL]
        for task in wanted:
            reply = run.replies[task.id]
            calls = [ToolCall("", FunctionCall(name, text)) for name, text in reply.calls]
            called += bool(calls)
            printed += not calls and prints_a_call(task, reply.text)
            invalid += any(problem_of(task.question, name, _json(text)) for name, text in reply.calls)
            score.answered += 1
            score.right += miss_of(task.key, calls) is None
        for task in others:
            if task.id in run.replies:
                reply = run.replies[task.id]
                false_calls += bool(reply.calls)
                false_prints += not reply.calls and prints_a_call(task, reply.text)
        asked_of_others = sum(task.id in run.replies for task in others)
        return Counts(len(wanted), called, printed, invalid, score, asked_of_others, false_calls, false_prints)


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


def _chart(tables: dict[str, Sequence[Run]], tasks: Sequence[Task]) -> str:
    series = ("Ferrule, auto", "Ferrule, required", "llama.cpp, auto", "llama.cpp, required")
    groups: list[Group] = []
    for model, runs in tables.items():
        bars: dict[str, Bar] = {}
        for run in runs:
            known = [task for task in tasks if task.id in run.replies]
            score = Counts.of(run, known).score
            bars[f"{run.side}, {run.choice}"] = Bar(score.share, *score.interval, f"{score.right} of {score.answered}")
        groups.append(Group(model, tuple(bars[name] for name in series)))
    return render_chart("Right calls", "BFCL v4, simple and multiple, the same weights and template", series, groups)


def _all_runs(model: str, runs: Sequence[Run], tasks: Sequence[Task]) -> list[Run]:
    by_name = {(run.side, run.choice): run for run in runs}
    ours, native = by_name["Ferrule", "auto"], by_name["llama.cpp", "auto"]
    forge = _rescued(native, tasks)
    extra = [_without_drift(ours), *([forge] if forge else [])]
    return sorted([*runs, *extra], key=lambda run: (run.choice, run.side))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long auto", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=200, help="how many questions with a call as answer")
    parser.add_argument("--irrelevant", type=int, default=200, metavar="N", help="how many without (default: 200)")
    parser.add_argument("--model", action="append", choices=tuple(_MODELS), help="default: qwen2.5-coder-0.5b")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    arguments = parser.parse_args()
    models = arguments.model or ["qwen2.5-coder-0.5b"]
    tasks = load_tasks(select_categories(["simple_python", "multiple"]), arguments.count, data_folder())
    if arguments.irrelevant:
        tasks += load_tasks(select_categories(["irrelevance"]), arguments.irrelevant, data_folder())
    console = Console()
    tables: dict[str, Sequence[Run]] = {}
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        for model in models:
            runs = asyncio.run(_measure(model, tasks, arguments.max_tokens, progress))
            tables[model] = _all_runs(model, runs, tasks)
    parts: list[str] = []
    for model, runs in tables.items():
        table = _table(model, runs, tasks, arguments.max_tokens)
        print_table(table, console)
        parts.append(markdown(table))
    if not arguments.print:
        images = PAGE.parent / "images"
        images.mkdir(parents=True, exist_ok=True)
        (images / "auto.svg").write_text(_chart(tables, tasks), encoding="utf-8")
        size = f"{arguments.count} --irrelevant {arguments.irrelevant} --max-tokens {arguments.max_tokens}"
        names = "".join(f" --model {model}" for model in models)
        command = _COMMAND.format(" ".join(models), size + names)
        picture = "![share of right calls by model and reader](images/auto.svg)"
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), picture, *parts])


if __name__ == "__main__":
    main()
