"""Check that a required call is made or fails with a code: `scripts/long required-calls`.

The schemas hold keywords that no grammar enforces. A small model often misses them; the engine lets it write the
arguments again, and then gives up with an error, but never with an empty success.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import jsonschema
from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.engines.llama import llama
from ferrule.engines.text.engine import TextOptions
from lab.api_answers import APIS, Answer, Question, ask_api
from lab.required_calls.questions import COMBINATIONS, RequiredQuestion, question
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.servers import MODEL, QWEN
from lab.versions import describe_versions
from server.client import gateway_of

_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-weights\nscripts/long required-calls\n```"
_MODELS: Final[Mapping[str, tuple[Any, TextOptions]]] = {
    "SmolLM2-135M": (MODEL, TextOptions(format="hermes")),
    "Qwen2.5-Coder-0.5B": (QWEN, TextOptions()),
}
_TOKENS: Final = 100
_BLOCK: Final = 30
_ENDS: Final = ("call", "no_valid_call", "length")
_ABOUT: Final = (
    "Each question offers one tool whose schema holds `uniqueItems`, `not`, `if` and `contains`, alone and in every "
    f"combination, and requires one call; {_TOKENS} tokens, in process, one thread, through the gateway: the chat, "
    "Responses and Messages APIs in turn, each streamed and not. *Call*: every call of the answer fits its schema by "
    "an independent validator (`jsonschema`). *no\\_valid\\_call*: an error with that code. *Length*: the budget ended "
    "inside the call. *Empty*: a success without a call. *Invalid*: a call that does not fit. *Other*: an "
    "error with another code."
)


def verdict(asked: RequiredQuestion, answer: Answer) -> str:
    validator: Any = jsonschema.Draft202012Validator(asked.tool.parameters)
    if any(name != asked.tool.name or not validator.is_valid(arguments) for name, arguments in answer.calls):
        return "invalid"
    if answer.error:
        return "no_valid_call" if answer.error == "no_valid_call" else f"other: {answer.error}"
    if answer.calls:
        return "call"
    return "length" if answer.finish == "length" else "empty"


async def _block(model: str, numbers: Sequence[int], advance: Any) -> dict[str, int]:
    """Ask the questions of these numbers; the results by keywords and verdict."""
    path, options = _MODELS[model]
    ways = [(api, is_streamed) for api in APIS for is_streamed in (False, True)]
    results: Counter[str] = Counter()
    async with gateway_of(llama(path, options, threads=1, slots=1, context=4096)) as client:
        for number in numbers:
            asked = question(number)
            api, is_streamed = ways[number % len(ways)]
            request = Question(asked.text, [asked.tool], "required", _TOKENS, is_one_call=True)
            answer = await ask_api(client, api, request, is_streamed=is_streamed)
            results[f"{'+'.join(asked.keywords)} {verdict(asked, answer)}"] += 1
            advance()
    return dict(results)


async def table_of(model: str, count: int, saved: SavedParts, progress: Progress) -> Table:
    task = progress.add_task(model, total=count)
    results: Counter[str] = Counter()
    for start in range(0, count, _BLOCK):
        numbers = range(start, min(start + _BLOCK, count))
        name = f"{model} {numbers.start} {numbers.stop}"
        results.update(await saved.part(name, partial(_block, model, numbers, lambda: None)))
        progress.update(task, completed=numbers.stop)
    rows: list[tuple[str, ...]] = []
    columns = (*_ENDS, "empty", "invalid", "other")
    totals: Counter[str] = Counter()
    for keywords in ["+".join(names) for names in COMBINATIONS]:
        counts: Counter[str] = Counter()
        for key, number in results.items():
            if key.partition(" ")[0] == keywords:
                counts[key.partition(" ")[2].partition(":")[0]] += number
        totals.update(counts)
        rows.append((keywords, *(str(counts[column]) for column in columns)))
    rows.append(("total", *(str(totals[column]) for column in columns)))
    bad = [f"{key}: {number}" for key, number in results.items() if not key.endswith(_ENDS)]
    return Table(f"{count} required calls of {model}", "", ("keywords", *columns), rows, bad)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long required-calls", description=__doc__)
    parser.add_argument("--smol", type=int, default=400, help="questions to SmolLM2-135M (400)")
    parser.add_argument("--qwen", type=int, default=100, help="questions to Qwen2.5-Coder-0.5B (100)")
    parser.add_argument("--print", action="store_true", help="only print the results, and keep them for another run")
    arguments = parser.parse_args()
    console = Console()
    saved = SavedParts("required-calls")
    counts = dict(zip(_MODELS, (arguments.smol, arguments.qwen), strict=True))
    tables: list[Table] = []
    with Progress(console=console) as progress:
        for model, count in counts.items():
            if count:
                tables.append(asyncio.run(table_of(model, count, saved, progress)))
                print_table(tables[-1], console)
    if not arguments.print:
        shown = [markdown(table) for table in tables]
        parts = [_COMMAND, describe_versions(), _ABOUT, *shown]
        publish("required-calls", "Required calls", parts)
        saved.clear()
    sys.exit(any(table.notes for table in tables))


if __name__ == "__main__":
    main()
