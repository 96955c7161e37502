"""Count the replies that are valid calls, according to an independent validator (`jsonschema`)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from ferrule.bench.bfcl_requests import Question
from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason
from ferrule.core.reply import Reply
from ferrule.core.request import ToolChoice
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError


@dataclass(slots=True)
class ReplyCounts:
    """Counts of replies and calls. A reply is valid if it has calls, all of them are valid and it was not cut off."""

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

    def add_error(self, question: Question, message: str) -> None:
        self.replies += 1
        self.errors += 1
        self.problems.append(f"{question.id}: {message[:160]}")

    @property
    def share(self) -> str:
        return f"{100 * self.valid / self.replies:.1f}%" if self.replies else "-"


def problem_of(question: Question, name: str, arguments: Any) -> str:
    """What is wrong with a call according to jsonschema; empty if nothing is."""
    tool = next((tool for tool in question.tools if tool.name == name), None)
    if tool is None:
        return f"{name!r} was not offered"
    if not isinstance(arguments, dict):
        return f"{name}: the arguments are not an object"
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


async def count_replies(
    engine: Engine,
    questions: Iterable[Question],
    choice: ToolChoice,
    *,
    concurrency: int = 4,
    max_tokens: int = 512,
    advance: Callable[[], None] = lambda: None,
) -> ReplyCounts:
    """Ask an engine each question, several at once."""
    counts = ReplyCounts()

    async def ask(question: Question) -> None:
        try:
            reply = await engine.generate_with_tools(question.request(choice, max_tokens))
        except FerruleError as refusal:
            counts.add_error(question, f"{refusal.code}: {refusal.message}")
        else:
            is_cut_off = reply.finish is FinishReason.LENGTH
            counts.add(question, calls_of(reply), is_cut_off=is_cut_off, refused=len(reply.incomplete))
            counts.tokens += reply.usage.completion_tokens if reply.usage else 0
        advance()

    await run_concurrently(concurrency, (ask(question) for question in questions))
    return counts


async def run_concurrently(concurrency: int, work: Iterable[Awaitable[None]]) -> None:
    """Await all of the work, at most `concurrency` at once."""
    pending = list(work)
    gate = asyncio.Semaphore(concurrency)

    async def one(task: Awaitable[None]) -> None:
        async with gate:
            await task

    await asyncio.gather(*(one(task) for task in pending))
