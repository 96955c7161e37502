"""Writes a conversation into a ledger as the tool loop would write it, without a model and without tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.event import Usage
from ferrule.core.message import ChatMessage, messages_as_json
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.reply_record import ReplyCost, ReplyRecord
from ferrule.run.tool_usage import AttemptStatus, CallAttempt, ToolUsage

_DAY = 86_400.0


@dataclass(slots=True)
class ConversationWriter:
    """Writes one conversation. `now` is the time of the next row, and advances with each row."""

    ledger: Ledger
    id: str
    principal: Principal
    now: float
    tools: Sequence[ToolDefinition]
    model: str = "smol"
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    _first: int = 0
    _round: int = 0
    _calls: int = 0

    async def add_user_message(self, text: str) -> None:
        if not self.messages:
            await self.ledger.open(self.id, self.principal, "a test", 30 * _DAY, now=self.now)
        self.messages.append(ChatMessage.user(text))
        self._first, self._round = len(self.messages), 0

    async def add_reply_without_call(self, *attempts: CallAttempt, seconds: float = 0.8) -> None:
        """Write a reply without an accepted call."""
        await self._record_reply("", attempts, seconds)

    async def add_reply(
        self, text: str, *calls: ToolCall, seconds: float = 0.8, attempt: CallAttempt | None = None
    ) -> None:
        """Write a reply with calls. `attempt` replaces the default usage record of the first call."""
        attempts = [
            CallAttempt(call.name, AttemptStatus.ACCEPTED, call.name, number) for number, call in enumerate(calls)
        ]
        if attempt is not None:
            attempts[0] = attempt
        self.messages.append(ChatMessage.assistant(text, calls))
        await self._record_reply(text, attempts, seconds)

    async def run_call(self, call: ToolCall, outcome: Outcome, seconds: float = 0.3) -> None:
        claim = await self._propose(call, needs_approval=False)
        await self._run(call, claim, outcome, seconds)

    async def run_approved_call(
        self, call: ToolCall, outcome: Outcome, by: str, wait_seconds: float, seconds: float = 0.3
    ) -> None:
        claim = await self._propose(call, needs_approval=True)
        approval = await self._request_approval(claim)
        self.now += wait_seconds
        await self.ledger.approve(approval, by, now=self.now)
        await self._run(call, claim, outcome, seconds, approval)

    async def deny_call(self, call: ToolCall, by: str, why: str, wait_seconds: float) -> None:
        approval = await self._request_approval(await self._propose(call, needs_approval=True))
        self.now += wait_seconds
        await self.ledger.deny(approval, by, why, now=self.now)
        self.messages.append(ChatMessage.tool(call.id, f"denied: {why}", call.name, is_error=True))

    async def finish(self) -> None:
        state = {"version": 1, "messages": messages_as_json(self.messages), "loop": None}
        await self.ledger.save(self.id, 1, state, now=self.now)
        await self.ledger.release(self.id, 1, now=self.now)

    async def _record_reply(self, text: str, attempts: Sequence[CallAttempt], seconds: float) -> None:
        self._round, self._calls = self._round + 1, 0
        self.now += seconds
        usage = Usage(160 + 45 * len(self.messages), 6 + len(text) // 4 + 20 * len(attempts))
        cost = ReplyCost(seconds, usage, len(text) + 40 * len(attempts))
        tool_usage = ToolUsage(tuple(self.tools), tuple(attempts))
        record = ReplyRecord(self.id, f"{self._first}.{self._round}", self.model, tool_usage, cost)
        await self.ledger.record_reply(record, 1, now=self.now)

    async def _propose(self, call: ToolCall, *, needs_approval: bool) -> Claim:
        place = f"{self._first}.{self._round}.{self._calls}"
        self._calls += 1
        tool = next(one for one in self.tools if one.name == call.name)
        arguments = canonical_bytes(call.arguments)
        claim = Claim(
            self.id, place, self.principal.tenant, self.principal.name, tool.name, tool.fingerprint, arguments
        )
        await self.ledger.propose(claim, 1, side_effects=tool.side_effects, needs_approval=needs_approval, now=self.now)
        return claim

    async def _request_approval(self, claim: Claim) -> str:
        approval = await self.ledger.request_approval(self.id, claim.call_id, 1, expires=self.now + _DAY, now=self.now)
        return approval.id

    async def _run(self, call: ToolCall, claim: Claim, outcome: Outcome, seconds: float, approval: str = "") -> None:
        await self.ledger.start(claim, 1, approval=approval, now=self.now)
        self.now += seconds
        await self.ledger.finish(self.id, claim.call_id, 1, outcome, now=self.now)
        is_plain = isinstance(outcome, Answered)
        content = outcome.content if is_plain else outcome.reason
        is_error = outcome.is_error if is_plain else True
        self.messages.append(ChatMessage.tool(call.id, content, call.name, is_error=is_error))
