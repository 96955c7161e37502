"""The same requests on several engines give receipts that claim the same meaning: `scripts/long receipts`.

An engine may enforce a keyword while it decodes or leave it to the validator; what a call is known to satisfy in the
end must not depend on which. One more tool has keywords that no grammar says: they show in every receipt as checked.
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.tables import Table, markdown, show
from ferrule.bench.validity_count import in_width
from ferrule.core.choice import ToolChoice
from ferrule.core.message import ChatMessage
from ferrule.core.receipt import Receipt
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.text.engine import TextOptions
from lab.environment import circumstances, told
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
    engine: Engine, asked: Sequence[Question], advance: Callable[[], None] = lambda: None
) -> dict[str, list[Receipt]]:
    """The receipts of every question's calls, handed on or refused."""
    found: dict[str, list[Receipt]] = {}

    async def ask(question: Question) -> None:
        reply = await engine.generate_with_tools(question.request(ToolChoice.required(), 256))
        found[question.id] = [call.receipt for call in (*reply.calls, *reply.incomplete) if call.receipt]
        advance()

    await in_width(4, (ask(question) for question in asked))
    return found


def disagreements(by_engine: Mapping[str, Mapping[str, Sequence[Receipt]]]) -> list[str]:
    """Questions whose receipts do not claim the same meaning on every engine. Tools of one name have one schema."""
    wrong: list[str] = []
    for question in next(iter(by_engine.values())):
        meanings = {receipt.meaning for held in by_engine.values() for receipt in held[question][:1]}
        if len(meanings) != 1:
            wrong.append(question)
    return wrong


async def table_of(names: Sequence[str], count: int, progress: Progress) -> Table:
    # One tool on offer, so that the same tool is called on every engine, whichever arguments it is called with.
    asked = [*questions(count, ("simple_python", "live_simple")), HARD_QUESTION]
    found: dict[str, dict[str, list[Receipt]]] = {}
    for name in names:
        task = progress.add_task(name, total=len(asked))
        async with ENGINES[name](TextOptions()) as engine:
            found[name] = await receipts_of(engine, asked, lambda t=task: progress.advance(t))
    wrong = disagreements(found)
    rows: list[tuple[str, ...]] = []
    for name, held in found.items():
        every = [receipt for receipts in held.values() for receipt in receipts]
        hard = held[HARD_QUESTION.id][0]
        shown = [keyword for keyword in UNSAYABLE if keyword in hard.checked]
        refused = sum(receipt.how.value == "refused" for receipt in every)
        rows.append((name, every[0].path, str(len(every)), str(refused), ", ".join(shown), str(hard.how.value)))
    return Table(
        f"{len(asked)} requests on {len(names)} engines: {len(asked) - len(wrong)} with the same meaning everywhere",
        "*checked after* lists which of `if`, `not`, `then` and `uniqueItems` stand in the receipt of a tool that uses "
        "them; the last column is what became of its call.",
        ("engine", "path", "receipts", "refused", "checked after", "that call"),
        rows,
        [f"not the same: {name}" for name in wrong],
        words=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long receipts", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        table = asyncio.run(table_of(arguments.engine or list(ENGINES), arguments.count, progress))
    show(table, console)
    if not arguments.engine:
        parts = [_COMMAND, told(circumstances()), markdown(table)]
        publish(_SECTION, "One meaning on every engine", parts)


if __name__ == "__main__":
    main()
