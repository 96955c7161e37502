"""A conversation, written into a ledger as the loop would have written it. No model and no tool is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.event import Usage
from ferrule.core.message import ChatMessage
from ferrule.core.message_json import messages_as_json
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.reply_record import Replied, Took
from ferrule.run.tool_usage import Fate, Pick, Selection

_DAY = 86_400.0


@dataclass(slots=True)
class Talk:
    """`now` is the moment of what is written next, and goes on with it."""

    ledger: Ledger
    id: str
    who: Principal
    now: float
    tools: Sequence[ToolDefinition]
    model: str = "smol"
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    _first: int = 0
    _round: int = 0
    _calls: int = 0

    async def said(self, text: str) -> None:
        if not self.messages:
            await self.ledger.open(self.id, self.who, "a test", 30 * _DAY, now=self.now)
        self.messages.append(ChatMessage.user(text))
        self._first, self._round = len(self.messages), 0

    async def picked(self, *picks: Pick, seconds: float = 0.8) -> None:
        """A reply of which nothing was handed on."""
        await self._replied("", picks, seconds)

    async def answered(self, text: str, *calls: ToolCall, seconds: float = 0.8, pick: Pick | None = None) -> None:
        """A reply with calls. `pick` is how the first of them came about, where that is of interest."""
        picks = [Pick(call.name, Fate.HANDED_ON, call.name, number) for number, call in enumerate(calls)]
        if pick is not None:
            picks[0] = pick
        self.messages.append(ChatMessage.assistant(text, calls))
        await self._replied(text, picks, seconds)

    async def ran(self, call: ToolCall, outcome: Outcome, seconds: float = 0.3) -> None:
        claim = await self._proposed(call, needs_leave=False)
        await self._run(call, claim, outcome, seconds)

    async def allowed(self, call: ToolCall, outcome: Outcome, by: str, waited: float, seconds: float = 0.3) -> None:
        claim = await self._proposed(call, needs_leave=True)
        asked = await self._asked(claim)
        self.now += waited
        await self.ledger.approve(asked, by, now=self.now)
        await self._run(call, claim, outcome, seconds, asked)

    async def denied(self, call: ToolCall, by: str, why: str, waited: float) -> None:
        asked = await self._asked(await self._proposed(call, needs_leave=True))
        self.now += waited
        await self.ledger.deny(asked, by, why, now=self.now)
        self.messages.append(ChatMessage.tool(call.id, f"denied: {why}", call.name, is_error=True))

    async def ended(self) -> None:
        state = {"version": 1, "messages": messages_as_json(self.messages), "loop": None}
        await self.ledger.save(self.id, 1, state, now=self.now)
        await self.ledger.release(self.id, 1, now=self.now)

    async def _replied(self, text: str, picks: Sequence[Pick], seconds: float) -> None:
        self._round, self._calls = self._round + 1, 0
        self.now += seconds
        usage = Usage(160 + 45 * len(self.messages), 6 + len(text) // 4 + 20 * len(picks))
        took = Took(seconds, usage, len(text) + 40 * len(picks))
        chosen = Selection(tuple(self.tools), tuple(picks))
        replied = Replied(self.id, f"{self._first}.{self._round}", self.model, chosen, took)
        await self.ledger.note_reply(replied, 1, now=self.now)

    async def _proposed(self, call: ToolCall, *, needs_leave: bool) -> Claim:
        place = f"{self._first}.{self._round}.{self._calls}"
        self._calls += 1
        tool = next(one for one in self.tools if one.name == call.name)
        arguments = canonical_bytes(call.arguments)
        claim = Claim(self.id, place, self.who.tenant, self.who.name, tool.name, tool.fingerprint, arguments)
        await self.ledger.propose(claim, 1, side_effects=tool.side_effects, needs_leave=needs_leave, now=self.now)
        return claim

    async def _asked(self, claim: Claim) -> str:
        asked = await self.ledger.request_approval(self.id, claim.call_id, 1, expires=self.now + _DAY, now=self.now)
        return asked.id

    async def _run(self, call: ToolCall, claim: Claim, outcome: Outcome, seconds: float, approval: str = "") -> None:
        await self.ledger.start(claim, 1, approval=approval, now=self.now)
        self.now += seconds
        await self.ledger.finish(self.id, claim.call_id, 1, outcome, now=self.now)
        is_plain = isinstance(outcome, Answered)
        content = outcome.content if is_plain else outcome.reason
        is_error = outcome.is_error if is_plain else True
        self.messages.append(ChatMessage.tool(call.id, content, call.name, is_error=is_error))
