"""The same questions three ways on one engine: left free, held whole, and held with forced text skipped.

`scripts/bench-skip`. Every few questions go all three ways before the next ones, so that a machine which slows down
slows all of them. What is told are ratios between neighbours, and whether skipping changed a word. A run that was
stopped goes on where it was.
"""

import argparse
import asyncio
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.tables import Table, markdown, show
from ferrule.core.choice import ToolChoice
from ferrule.core.event import WireText
from ferrule.core.reply import Reply
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import circumstances, told
from lab.real_engines import BY_MATCHER
from lab.results_page import PAGE, publish
from lab.saved_parts import Sittings
from lab.skip_tables import WAYS, Asked, picture, times_table, words_table

_OPTIONS: Final[Mapping[str, TextOptions]] = {
    "free": TextOptions(format="hermes", is_constrained=False),
    "whole": TextOptions(format="hermes", skips=False),
    "skip": TextOptions(format="hermes", skips=True),
}
_CHOICES: Final = {"required": ToolChoice.required(), "auto": ToolChoice.auto()}
_COMMAND: Final = (
    "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/bench-skip --required {} --auto {} --engine {}\n```"
)
_MAX_TOKENS: Final = 96
_FREE: Final = ToolChoice.auto()
_PART: Final = 8
"""So many questions at each width, before the next: an engine still knows their prompts then."""
_FEWER: Final = {"vllm, xgrammar": 5}
"""Every so many-th question only: there it is told how many words differ, and why; skipping is off unless asked for."""


def words_of(reply: Reply) -> str:
    return json.dumps([reply.text, [[call.name, call.function.arguments] for call in reply.calls]], ensure_ascii=False)


async def asked(engine: TextEngine, question: Question, choice: str) -> tuple[float, int, int, str]:
    # Free, a model cannot be held to a call: it is asked, and may.
    chosen = _CHOICES[choice] if engine.options.is_constrained else _FREE
    started = time.monotonic()
    reply = await engine.generate_with_tools(question.request(chosen, _MAX_TOKENS))
    seconds = time.monotonic() - started
    skipped = max((call.receipt.skipped for call in reply.calls if call.receipt), default=0)
    return seconds, reply.usage.completion_tokens if reply.usage else 0, skipped, words_of(reply)


async def pieces_of(engine: TextEngine, question: Question, choice: str) -> tuple[str, ...]:
    """The texts of an answer's tokens, as they come."""
    request = replace(question.request(_CHOICES[choice], _MAX_TOKENS), shows_wire=True)
    async with aclosing(engine.stream(request)) as events:
        return tuple([event.text async for event in events if isinstance(event, WireText)])


async def measured(
    name: str, counts: Mapping[str, int], widths: Sequence[int], kept: Sittings, advance: Callable[[], None]
) -> list[Asked]:
    found: list[Asked] = []
    async with BY_MATCHER[name](_OPTIONS["whole"]) as opened:
        assert isinstance(opened, TextEngine)
        engines = {way: TextEngine(opened.generator, _OPTIONS[way]) for way in WAYS}
        for choice, count in counts.items():
            every = questions(count)
            # Left free, a question is the same whatever the choice: it is asked once.
            free = {(row.question, row.width): replace(row, choice=choice) for row in found if row.way == "free"}
            for at in range(0, count, _PART):
                some = every[at : at + _PART]
                known = [free[key] for width in widths for each in some if (key := (each.id, width)) in free]
                ways = tuple(way for way in WAYS if way != "free" or not known)
                sitting = _Sitting(name, choice, some, ways, engines)
                found += known + await sitting.rows(widths, kept)
                advance()
    return found


@dataclass(frozen=True, slots=True)
class _Sitting:
    """A few questions, each asked every way at every width."""

    engine: str
    choice: str
    questions: Sequence[Question]
    ways: Sequence[str]
    engines: Mapping[str, TextEngine]

    async def rows(self, widths: Sequence[int], kept: Sittings) -> list[Asked]:
        async def now() -> list[Any]:
            return [asdict(row) for width in widths for row in await self._at(width)]

        asked_for = ",".join(question.id for question in self.questions)
        named = f"{self.engine} {self.choice} {'/'.join(self.ways)} at {widths}, {_MAX_TOKENS} tokens: {asked_for}"
        return [Asked(**row) for row in await kept.part(named, now)]

    async def _at(self, width: int) -> list[Asked]:
        """The questions, so many at once."""
        found: list[Asked] = []
        for at in range(0, len(self.questions), width):
            group = self.questions[at : at + width]
            # Whoever comes first reads the prompt that the others find in the cache: nobody is first who is counted.
            free = self.engines["free"]
            await asyncio.gather(*(free.generate_with_tools(question.request(_FREE, 1)) for question in group))
            by_way = {way: await self._one_way(way, group, width) for way in self.ways}
            await self._show_differences(by_way, group)
            found += [row for rows in by_way.values() for row in rows]
        return found

    async def _one_way(self, way: str, group: Sequence[Question], width: int) -> list[Asked]:
        answers = await asyncio.gather(*(asked(self.engines[way], question, self.choice) for question in group))
        return [
            Asked(self.engine, self.choice, width, way, question.id, *answer)
            for question, answer in zip(group, answers, strict=True)
        ]

    async def _show_differences(self, by_way: Mapping[str, list[Asked]], group: Sequence[Question]) -> None:
        for number, question in enumerate(group):
            if by_way["whole"][number].words != by_way["skip"][number].words:
                for way in ("whole", "skip"):
                    pieces = await pieces_of(self.engines[way], question, self.choice)
                    by_way[way][number] = replace(by_way[way][number], pieces=pieces)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-skip", description=__doc__)
    parser.add_argument("--required", type=int, default=248, help="how many questions with a call required")
    parser.add_argument("--auto", type=int, default=104, help="how many with auto")
    parser.add_argument("--width", type=int, action="append", help="how many at once (default: 1 and 8)")
    parser.add_argument(
        "--engine", action="append", choices=tuple(BY_MATCHER), help="this one alone; may be given several times"
    )
    parser.add_argument("--anew", action="store_true", help="measure again what an earlier run has measured")
    parser.add_argument("--print", action="store_true", help="keep what is measured, and do not write the page yet")
    arguments = parser.parse_args()
    widths = arguments.width or [1, 8]
    every = {"required": arguments.required, "auto": arguments.auto}
    console = Console()
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        for name in arguments.engine or BY_MATCHER:
            kept = Sittings(_section(name))
            if arguments.anew:
                kept.forget()
            counts = {choice: count // _FEWER.get(name, 1) for choice, count in every.items()}
            task = progress.add_task(name, total=sum(-(-count // _PART) for count in counts.values()))
            rows = asyncio.run(measured(name, counts, widths, kept, lambda t=task: progress.advance(t)))
            tables = [times_table(rows), words_table(rows)]
            for table in tables:
                show(table, console)
            if not arguments.print:
                _published(name, every, rows, tables)
                kept.forget()


def _section(engine: str) -> str:
    """One for each engine: an engine takes an hour, and not every machine has the time or the room for all."""
    return f"skip-{engine.replace(', ', '-')}"


def _published(engine: str, counts: Mapping[str, int], rows: Sequence[Asked], tables: Sequence[Table]) -> None:
    name = _section(engine)
    shown = Path(f"images/{name}.svg")
    (PAGE.parent / shown).write_text(picture(rows), encoding="utf-8")
    times, words = map(markdown, tables)
    command = _COMMAND.format(*counts.values(), shlex.quote(engine))
    drawn = f"![What skipping takes, beside holding a call whole]({shown})"
    publish(name, f"Skip: {engine}", [command, told(circumstances()), times, drawn, words])


if __name__ == "__main__":
    main()
