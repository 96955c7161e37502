"""Measure skipping: the same questions unconstrained ("free"), constrained ("whole") and with forced text skipped.

`scripts/bench-skip`. Every few questions go through all three modes before the next ones, so that a machine that slows
down affects all of them. The results are ratios of neighbouring measurements, and whether skipping changed the output.
An interrupted run resumes.
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

from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.event import WireText
from ferrule.core.reply import Reply
from ferrule.core.request import ToolChoice
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import describe_environment, measured_environment
from lab.real_engines import BY_MATCHER
from lab.results_page import PAGE, publish
from lab.saved_parts import SavedParts
from lab.skip_tables import MODES, SkipRow, picture, times_table, words_table

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
"""How many questions run at each concurrency before the next ones, so that an engine still has their prompts cached."""
_FEWER: Final = {"vllm, xgrammar": 5}
"""Only every N-th question for these engines: skipping is off there by default, and only differences matter."""


def reply_text(reply: Reply) -> str:
    return json.dumps([reply.text, [[call.name, call.function.arguments] for call in reply.calls]], ensure_ascii=False)


async def ask(engine: TextEngine, question: Question, choice: str) -> tuple[float, int, int, str]:
    # An unconstrained model cannot be made to call, so it gets auto.
    tool_choice = _CHOICES[choice] if engine.options.is_constrained else _FREE
    started = time.monotonic()
    reply = await engine.generate_with_tools(question.request(tool_choice, _MAX_TOKENS))
    seconds = time.monotonic() - started
    skipped = max((call.receipt.skipped for call in reply.calls if call.receipt), default=0)
    return seconds, reply.usage.completion_tokens if reply.usage else 0, skipped, reply_text(reply)


async def pieces_of(engine: TextEngine, question: Question, choice: str) -> tuple[str, ...]:
    """The texts of an answer's tokens, in order."""
    request = replace(question.request(_CHOICES[choice], _MAX_TOKENS), shows_wire=True)
    async with aclosing(engine.stream(request)) as events:
        return tuple([event.text async for event in events if isinstance(event, WireText)])


async def measure(
    name: str, counts: Mapping[str, int], concurrencies: Sequence[int], saved: SavedParts, advance: Callable[[], None]
) -> list[SkipRow]:
    rows: list[SkipRow] = []
    async with BY_MATCHER[name](_OPTIONS["whole"]) as base_engine:
        assert isinstance(base_engine, TextEngine)
        engines = {mode: TextEngine(base_engine.generator, _OPTIONS[mode]) for mode in MODES}
        for choice, count in counts.items():
            every = load_questions(count)
            # Unconstrained, a question does not depend on the choice, so it is asked once.
            free = {(row.question, row.concurrency): replace(row, choice=choice) for row in rows if row.mode == "free"}
            for at in range(0, count, _PART):
                some = every[at : at + _PART]
                free_rows = [
                    free[key]
                    for concurrency in concurrencies
                    for each in some
                    if (key := (each.id, concurrency)) in free
                ]
                modes = tuple(mode for mode in MODES if mode != "free" or not free_rows)
                part = _Part(name, choice, some, modes, engines)
                rows += free_rows + await part.rows(concurrencies, saved)
                advance()
    return rows


@dataclass(frozen=True, slots=True)
class _Part:
    """A few questions, each asked in every mode at every concurrency."""

    engine: str
    choice: str
    questions: Sequence[Question]
    modes: Sequence[str]
    engines: Mapping[str, TextEngine]

    async def rows(self, concurrencies: Sequence[int], saved: SavedParts) -> list[SkipRow]:
        async def measure_part() -> list[Any]:
            return [asdict(row) for width in concurrencies for row in await self._run_at(width)]

        question_ids = ",".join(question.id for question in self.questions)
        modes = "/".join(self.modes)
        name = f"{self.engine} {self.choice} {modes} at {concurrencies}, {_MAX_TOKENS} tokens: {question_ids}"
        return [SkipRow(**row) for row in await saved.part(name, measure_part)]

    async def _run_at(self, concurrency: int) -> list[SkipRow]:
        """Ask the questions, `concurrency` at once."""
        rows: list[SkipRow] = []
        for at in range(0, len(self.questions), concurrency):
            group = self.questions[at : at + concurrency]
            # The first request fills the prompt cache for the others, so an uncounted request goes first.
            free = self.engines["free"]
            await asyncio.gather(*(free.generate_with_tools(question.request(_FREE, 1)) for question in group))
            # Skipping goes first: after the others it would read the same answer from the prompt cache.
            by_mode = {mode: await self._run_mode(mode, group, concurrency) for mode in reversed(self.modes)}
            await self._show_differences(by_mode, group)
            rows += [row for rows in by_mode.values() for row in rows]
        return rows

    async def _run_mode(self, mode: str, group: Sequence[Question], concurrency: int) -> list[SkipRow]:
        answers = await asyncio.gather(*(ask(self.engines[mode], question, self.choice) for question in group))
        return [
            SkipRow(self.engine, self.choice, concurrency, mode, question.id, *answer)
            for question, answer in zip(group, answers, strict=True)
        ]

    async def _show_differences(self, by_mode: Mapping[str, list[SkipRow]], group: Sequence[Question]) -> None:
        for number, question in enumerate(group):
            if by_mode["whole"][number].output != by_mode["skip"][number].output:
                for mode in ("whole", "skip"):
                    pieces = await pieces_of(self.engines[mode], question, self.choice)
                    by_mode[mode][number] = replace(by_mode[mode][number], pieces=pieces)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-skip", description=__doc__)
    parser.add_argument("--required", type=int, default=248, help="number of questions with a call required")
    parser.add_argument("--auto", type=int, default=104, help="number of questions with auto")
    parser.add_argument("--width", type=int, action="append", help="concurrent requests (default: 1 and 8)")
    parser.add_argument(
        "--engine", action="append", choices=tuple(BY_MATCHER), help="only this engine; may be repeated"
    )
    parser.add_argument("--anew", action="store_true", help="discard the saved results of an earlier run")
    parser.add_argument("--print", action="store_true", help="save the results, but do not write the page")
    arguments = parser.parse_args()
    concurrencies = arguments.width or [1, 8]
    every = {"required": arguments.required, "auto": arguments.auto}
    console = Console()
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        for name in arguments.engine or BY_MATCHER:
            saved = SavedParts(_section(name))
            if arguments.anew:
                saved.clear()
            counts = {choice: count // _FEWER.get(name, 1) for choice, count in every.items()}
            task = progress.add_task(name, total=sum(-(-count // _PART) for count in counts.values()))
            rows = asyncio.run(measure(name, counts, concurrencies, saved, lambda t=task: progress.advance(t)))
            tables = [times_table(rows), words_table(rows)]
            for table in tables:
                print_table(table, console)
            if not arguments.print:
                _publish(name, every, rows, tables)
                saved.clear()


def _section(engine: str) -> str:
    """The section name, one per engine: an engine takes an hour, and not every machine can run all of them."""
    return f"skip-{engine.replace(', ', '-')}"


def _publish(engine: str, counts: Mapping[str, int], rows: Sequence[SkipRow], tables: Sequence[Table]) -> None:
    name = _section(engine)
    path = Path(f"images/{name}.svg")
    (PAGE.parent / path).write_text(picture(rows), encoding="utf-8")
    times, words = map(markdown, tables)
    command = _COMMAND.format(*counts.values(), shlex.quote(engine))
    image = f"![Time and tokens with skipping, relative to without]({path})"
    publish(name, f"Skip: {engine}", [command, describe_environment(measured_environment()), times, image, words])


if __name__ == "__main__":
    main()
