"""Asks an engine what was not answered yet, several questions at once, and keeps every answer as it comes."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ferrule.bench.bfcl.answers import Answer
from ferrule.bench.bfcl.categories import MANNERS
from ferrule.bench.bfcl.tasks import Task
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError

_PATIENCE: Final = 5
"""After so many failures without an answer between them, that may pass by themselves, the engine is taken for gone."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How the questions are put: under the rule or without, with how many tokens, and how many at once."""

    is_constrained: bool = True
    max_tokens: int = 512
    width: int = 4

    @property
    def name(self) -> str:
        return MANNERS[self.is_constrained]


async def ask(
    engine: Engine, tasks: Iterable[Task], manner: Manner, keep: Callable[[Task, Answer], None]
) -> FerruleError | None:
    """Asks all of them. What fails and may work later is kept nowhere; the last such failure comes back.

    A request that is refused for good is an answer: it would be refused again.
    """
    waiting = iter(tasks)
    failures: list[FerruleError] = []
    in_a_row = 0

    async def one_after_the_other() -> None:
        nonlocal in_a_row
        for task in waiting:
            try:
                answer = await _answer(engine, task, manner)
            except FerruleError as failure:
                failures.append(failure)
                in_a_row += 1
                if in_a_row >= _PATIENCE:
                    return
            else:
                in_a_row = 0
                keep(task, answer)

    await asyncio.gather(*(one_after_the_other() for _ in range(manner.width)))
    return failures[-1] if failures else None


async def _answer(engine: Engine, task: Task, manner: Manner) -> Answer:
    choice = task.category.choice(is_constrained=manner.is_constrained)
    try:
        reply = await engine.generate_with_tools(task.question.request(choice, manner.max_tokens))
    except FerruleError as refusal:
        if refusal.retryable:
            raise
        return Answer(task.id, error=f"{refusal.code}: {refusal.message}")
    return Answer.of(task.id, reply)
