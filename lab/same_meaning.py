"""Check that the same requests on several engines give receipts with the same meaning: `scripts/long receipts`.

An engine may enforce a keyword while decoding or leave it to the validator; what a call satisfies in the end must not
depend on that. One more tool has keywords that no grammar can express: every receipt lists them as checked.
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.bench.validity_count import run_concurrently
from ferrule.core.call import Receipt
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.text.engine import TextOptions
from lab.environment import describe_environment, measured_environment
from lab.real_engines import ENGINES
from lab.results_page import publish

_SECTION: Final = "receipts"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/long receipts 100\n```"
UNSAYABLE: Final = ("if", "not", "then", "uniqueItems")
HARD: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 2, "uniqueItems": True},
        "level": {"type": "integer", "minimum": 0, "maximum": 3, "not": {"const": 2}},
        "why": {"type": "string", "maxLength": 20},
    },
    "required": ["tags", "level"],
    "if": {"properties": {"level": {"const": 3}}},
    "then": {"required": ["why"]},
}
HARD_QUESTION: Final = Question(
    "hard", "live_simple", (ChatMessage.user("Set the tags and a level."),), (ToolDefinition("set_tags", "", HARD),)
)


async def receipts_of(
    engine: Engine, questions: Sequence[Question], advance: Callable[[], None] = lambda: None
) -> dict[str, list[Receipt]]:
    """The receipts of all calls, accepted or refused, by question."""
    receipts: dict[str, list[Receipt]] = {}

    async def ask(question: Question) -> None:
        reply = await engine.generate_with_tools(question.request(ToolChoice.required(), 256))
        receipts[question.id] = [call.receipt for call in (*reply.calls, *reply.incomplete) if call.receipt]
        advance()

    await run_concurrently(4, (ask(question) for question in questions))
    return receipts


def disagreements(by_engine: Mapping[str, Mapping[str, Sequence[Receipt]]]) -> list[str]:
    """Questions whose receipts differ in meaning between engines. Tools with the same name have the same schema."""
    wrong: list[str] = []
    for question in next(iter(by_engine.values())):
        meanings = {receipt.meaning for receipts in by_engine.values() for receipt in receipts[question][:1]}
        if len(meanings) != 1:
            wrong.append(question)
    return wrong


async def table_of(names: Sequence[str], count: int, progress: Progress) -> Table:
    # Categories with a single tool, so that every engine calls the same tool, with whatever arguments.
    questions = [*load_questions(count, ("simple_python", "live_simple")), HARD_QUESTION]
    by_engine: dict[str, dict[str, list[Receipt]]] = {}
    for name in names:
        task = progress.add_task(name, total=len(questions))
        async with ENGINES[name](TextOptions()) as engine:
            by_engine[name] = await receipts_of(engine, questions, lambda t=task: progress.advance(t))
    wrong = disagreements(by_engine)
    rows: list[tuple[str, ...]] = []
    for name, by_question in by_engine.items():
        every = [receipt for receipts in by_question.values() for receipt in receipts]
        hard = by_question[HARD_QUESTION.id][0]
        unsayable = [keyword for keyword in UNSAYABLE if keyword in hard.checked]
        refused = sum(receipt.how.value == "refused" for receipt in every)
        rows.append((name, every[0].path, str(len(every)), str(refused), ", ".join(unsayable), str(hard.how.value)))
    return Table(
        f"{len(questions)} requests on {len(names)} engines: {len(questions) - len(wrong)} with the same meaning",
        "*checked after* lists which of `if`, `not`, `then` and `uniqueItems` are in the receipt of a tool that uses "
        "them; the last column is the outcome of its call.",
        ("engine", "path", "receipts", "refused", "checked after", "that call"),
        rows,
        [f"not the same: {name}" for name in wrong],
        text_columns=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long receipts", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        table = asyncio.run(table_of(arguments.engine or list(ENGINES), arguments.count, progress))
    print_table(table, console)
    if not arguments.engine:
        parts = [_COMMAND, describe_environment(measured_environment()), markdown(table)]
        publish(_SECTION, "One meaning on every engine", parts)


if __name__ == "__main__":
    main()
