"""Answers elicitations of MCP servers (questions to a person in the middle of a call) through approvals.

The question is recorded in the ledger like a call that is waiting for approval. Anyone who may decide approvals fills
in `answer`, or denies it. It is shown completely and escaped, used once, and audited. If nobody decides in time, the
server gets no answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.core.outcome import Answered, Outcome
from ferrule.errors import ApprovalError
from ferrule.run.ledger.ledger import Approval, ApprovalState, Ledger
from ferrule.run.server_questions import ELICITATION, WITHDRAWN_BY, ServerQuestion, ServerQuestions
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation, host_of


@dataclass(frozen=True, slots=True)
class ApprovalElicitationHandler:
    """Pass it to `McpServers` as `elicit`. It waits `patience` seconds for a decision.

    Meanwhile the call's own time limit stands still. If the call ends before, the question is withdrawn.

    Example:
        async with ferrule.ledger.open("ledger.db") as ledger:
            source = mcp("mcp.json", elicit=ApprovalElicitationHandler(ledger))
    """

    ledger: Ledger
    patience: float = 300.0
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2
    questions: ServerQuestions | None = field(default=None, repr=False, compare=False)
    """What asks, if it is shared with others."""

    def __post_init__(self) -> None:
        if self.questions is None:
            questions = ServerQuestions(self.ledger, self.patience, self.clock, self.poll_seconds)
            object.__setattr__(self, "questions", questions)

    async def __call__(self, elicitation: Elicitation) -> ElicitAnswer:
        assert self.questions is not None
        async with self.questions.ask(question_of(elicitation)) as decision:
            if decision is None or decision.decided_by == WITHDRAWN_BY:
                return ElicitAnswer("cancel")
            if decision.state is not ApprovalState.APPROVED:
                return ElicitAnswer("decline" if decision.state is ApprovalState.DENIED else "cancel")
            try:
                await self.questions.finish(decision, _answered())
            except ApprovalError:
                # It was approved in the last moment, and cannot be used any more.
                return ElicitAnswer("cancel")
            return _answer_of(decision)


def question_of(elicitation: Elicitation) -> ServerQuestion:
    """Return what a person is asked."""
    arguments: dict[str, Any] = {"message": elicitation.message, "answer": {}}
    if elicitation.url:
        # The host stands by itself: in a long address it is easily overlooked.
        arguments |= {"url": elicitation.url, "host": host_of(elicitation.url)}
    if elicitation.schema:
        arguments["schema"] = dict(elicitation.schema)
    callers = (elicitation.context,) if elicitation.context is not None else elicitation.callers
    asks = "to open an address" if elicitation.url else "a question"
    return ServerQuestion(ELICITATION, elicitation.server, asks, arguments, callers)


async def _answered() -> Outcome:
    return Answered("answered")


def _answer_of(approval: Approval) -> ElicitAnswer:
    question: Any = loads(approval.arguments.decode())
    answer = question.get("answer")
    return ElicitAnswer("accept", cast("dict[str, Any]", answer) if isinstance(answer, dict) else {})
