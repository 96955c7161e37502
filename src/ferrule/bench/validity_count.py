"""What share of replies are valid calls, judged by a validator that is not ours (`jsonschema`)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from ferrule.bench.bfcl_requests import Question
from ferrule.core.call import ToolCall
from ferrule.core.choice import ToolChoice
from ferrule.core.event import FinishReason
from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError


@dataclass(slots=True)
class Tally:
    """Replies and the calls in them. A reply is valid if it has a call, all its calls are valid and it was not cut."""

    replies: int = 0
    valid: int = 0
    calls: int = 0
    invalid_calls: int = 0
    cut_off: int = 0
    no_call: int = 0
    refused: int = 0
    errors: int = 0
    tokens: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])

    def add(self, question: Question, calls: Sequence[tuple[str, Any]], *, is_cut_off: bool, refused: int = 0) -> None:
        self.replies += 1
        self.calls += len(calls)
        wrong = [problem for name, arguments in calls if (problem := problem_of(question, name, arguments))]
        self.invalid_calls += len(wrong)
        self.cut_off += is_cut_off
        self.refused += refused
        self.no_call += not calls
        is_valid = bool(calls) and not wrong and not is_cut_off and not refused
        self.valid += is_valid
        if not is_valid:
            reason = wrong[0] if wrong else "cut off" if is_cut_off else "refused" if refused else "no call"
            self.problems.append(f"{question.id}: {reason}")

    def failed(self, question: Question, told: str) -> None:
        self.replies += 1
        self.errors += 1
        self.problems.append(f"{question.id}: {told[:160]}")

    @property
    def share(self) -> str:
        return f"{100 * self.valid / self.replies:.1f}%" if self.replies else "-"


def problem_of(question: Question, name: str, arguments: Any) -> str:
    """What is wrong with a call, by the other validator; empty where nothing is."""
    tool = next((tool for tool in question.tools if tool.name == name), None)
    if tool is None:
        return f"{name!r} was not offered"
    if not isinstance(arguments, dict):
        return f"{name}: arguments are no object"
    validator: Any = jsonschema.Draft202012Validator(tool.parameters)
    error = next(iter(validator.iter_errors(arguments)), None)
    return f"{name}: {str(error.message)[:100]}" if error else ""


def calls_of(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, _arguments(call)) for call in reply.calls]


def _arguments(call: ToolCall) -> Any:
    try:
        return call.arguments
    except ValueError:
        return None


async def tally_engine(
    engine: Engine,
    asked: Iterable[Question],
    choice: ToolChoice,
    *,
    width: int = 4,
    max_tokens: int = 512,
    advance: Callable[[], None] = lambda: None,
) -> Tally:
    """Ask an engine each question, several at once."""
    tally = Tally()

    async def ask(question: Question) -> None:
        try:
            reply = await engine.generate_with_tools(question.request(choice, max_tokens))
        except FerruleError as refusal:
            tally.failed(question, f"{refusal.code}: {refusal.message}")
        else:
            is_cut_off = reply.finish is FinishReason.LENGTH
            tally.add(question, calls_of(reply), is_cut_off=is_cut_off, refused=len(reply.incomplete))
            tally.tokens += reply.usage.completion_tokens if reply.usage else 0
        advance()

    await in_width(width, (ask(question) for question in asked))
    return tally


async def in_width(width: int, work: Iterable[Awaitable[None]]) -> None:
    """All of the work, at most so many at once."""
    waiting = list(work)
    gate = asyncio.Semaphore(width)

    async def one(task: Awaitable[None]) -> None:
        async with gate:
            await task

    await asyncio.gather(*(one(task) for task in waiting))
