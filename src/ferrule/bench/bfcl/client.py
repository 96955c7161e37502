"""Send questions to an engine, several at once, and save every answer as it arrives."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ferrule.bench.bfcl.answers import Answer
from ferrule.bench.bfcl.categories import MODE_NAMES
from ferrule.bench.bfcl.tasks import Task
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError

_MAX_FAILURES_IN_A_ROW: Final = 5
"""After this many retryable failures in a row, the engine is considered unavailable."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How questions are sent: with the grammar constraint or without it, with how many tokens, how many at once."""

    is_constrained: bool = True
    max_tokens: int = 512
    concurrency: int = 4

    @property
    def name(self) -> str:
        return MODE_NAMES[self.is_constrained]


async def ask_all(
    engine: Engine, tasks: Iterable[Task], options: RunOptions, save: Callable[[Task, Answer], None]
) -> FerruleError | None:
    """Ask all questions. Retryable failures are not saved; the last one is returned.

    A request that is refused permanently counts as an answer: it would be refused again.
    """
    pending = iter(tasks)
    failures: list[FerruleError] = []
    in_a_row = 0

    async def worker() -> None:
        nonlocal in_a_row
        for task in pending:
            try:
                answer = await _answer(engine, task, options)
            except FerruleError as failure:
                failures.append(failure)
                in_a_row += 1
                if in_a_row >= _MAX_FAILURES_IN_A_ROW:
                    return
            else:
                in_a_row = 0
                save(task, answer)

    await asyncio.gather(*(worker() for _ in range(options.concurrency)))
    return failures[-1] if failures else None


async def _answer(engine: Engine, task: Task, options: RunOptions) -> Answer:
    choice = task.category.choice(is_constrained=options.is_constrained)
    try:
        reply = await engine.generate_with_tools(task.question.request(choice, options.max_tokens))
    except FerruleError as refusal:
        if refusal.retryable:
            raise
        return Answer(task.id, error=f"{refusal.code}: {refusal.message}")
    return Answer.of(task.id, reply)
