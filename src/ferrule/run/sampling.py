"""Answers sampling requests of MCP servers: each waits for a person's approval, then a configured model answers.

The person sees everything that the model would read, and cannot change it. The model gets the server's messages and
nothing else: no tools, nothing of the conversation in which the server's tool was called. The answer is recorded in
the ledger with the approval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.event import FinishReason
from ferrule.core.media import media_line
from ferrule.core.message import ChatMessage, Text
from ferrule.core.named_media import all_media
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.engines.engine import Engine
from ferrule.errors import (
    ApprovalError,
    BudgetError,
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    LedgerError,
)
from ferrule.run.ledger.ledger import ApprovalState, Ledger
from ferrule.run.server_questions import SAMPLING, ServerQuestion, ServerQuestions
from ferrule.sources.mcp.sampling import Sample, SamplingRequest

_log = logging.getLogger(__name__)
EngineOf = Callable[[SamplingRequest, ToolCallRequest], Awaitable[Engine]]
"""Returns the engine that answers. It may refuse, by raising a `FerruleError`."""
_REASONS = {FinishReason.LENGTH: "maxTokens"}


@dataclass(frozen=True, slots=True)
class ApprovalSamplingHandler:
    """Pass it to `McpServers` as `sample`. `engine` answers what a person has approved.

    Example:
        handler = ApprovalSamplingHandler(ledger, engine)
        source = mcp({"notes": {"command": "notes", "sampling": {"model": "smol"}}}, sample=handler)
    """

    ledger: Ledger
    engine: Engine | EngineOf
    patience: float = 300.0
    questions: ServerQuestions | None = field(default=None, repr=False, compare=False)
    """What asks, if it is shared with others."""

    def __post_init__(self) -> None:
        if self.questions is None:
            object.__setattr__(self, "questions", ServerQuestions(self.ledger, self.patience))

    async def __call__(self, request: SamplingRequest) -> Sample:
        questions = self.questions
        assert questions is not None
        samples: list[Sample] = []

        async def run() -> Outcome:
            sample = await self._sample(request)
            samples.append(sample)
            return Answered(sample.text)

        async with questions.ask(question_of(request)) as decision:
            if decision is None:
                raise BudgetError("nobody approved this sample in time", hint="Ask again when somebody is there.")
            if decision.state is not ApprovalState.APPROVED:
                raise LedgerError("a person refused this sample", code="denied", hint="Do without it.")
            try:
                await questions.finish(decision, run())
            except ApprovalError as late:
                raise BudgetError("nobody approved this sample in time", hint=late.message) from late
        return samples[0]

    async def _sample(self, request: SamplingRequest) -> Sample:
        asked = ToolCallRequest(
            messages=request.messages,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            stop=request.stop,
            tool_choice=ToolChoice.none(),
            model=request.limits.model,
        )
        engine = self.engine if isinstance(self.engine, Engine) else await self.engine(request, asked)
        try:
            async with asyncio.timeout(request.limits.seconds):
                reply = await engine.generate_with_tools(asked)
        except TimeoutError as late:
            raise EngineTimeoutError("the model took too long", hint="Ask for less.") from late
        except EngineError as failure:
            # A server learns nothing of the engine: its address stands in such messages.
            _log.warning("the model that %r asked did not answer: %s", request.server, failure.message)
            raise EngineUnavailableError("the model did not answer", hint="Try again later.") from failure
        reason = "stopSequence" if reply.stop else _REASONS.get(reply.finish_reason, "endTurn")
        return Sample(reply.text, request.limits.model, reason)


def question_of(request: SamplingRequest) -> ServerQuestion:
    """Return what a person is asked to approve: all that the model would read."""
    arguments: dict[str, Any] = {
        "message": "asks for an answer of a model",
        "model": request.limits.model,
        "max_tokens": request.max_tokens,
        "messages": [_shown(message) for message in request.messages],
    }
    callers = (request.context,) if request.context is not None else request.callers
    return ServerQuestion(SAMPLING, request.server, "for an answer of a model", arguments, callers)


def _shown(message: ChatMessage) -> dict[str, Any]:
    lines = [part.text for part in message.parts if isinstance(part, Text)]
    return {"role": message.role.value, "text": "\n".join([*lines, *map(media_line, all_media(message))])}
