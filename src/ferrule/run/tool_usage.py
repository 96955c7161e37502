"""Selection: what one reply of a model chose, of what it was offered. Judges only: it counts nothing and keeps nothing.

The words that figures about tools are given in, here and everywhere. For one model, one tool and one definition of it:

- offered: replies of the model in whose request the choice left the tool on offer. demanded: those of them in which it
  was the only one and a call was required, so that naming it was no choice of the model's.
- picked: calls that name it and were handed on.
- wrong: calls that name it whose arguments did not fit. They were repaired, and then are picked too, or refused.
- cut off: calls that the end of the answer's budget broke off; nobody can say whether they would have fitted.
- retried: calls after an error, which was the last result of the same tool in the conversation.
- repeated: calls with the arguments of an earlier call of the same tool in the conversation.
- missed: calls of a name that was not on offer, for the tool whose name is nearest to it; and replies without any call
  where this very tool was demanded.

What cannot be known from a reply is whether another tool would have been the better one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.choice import ChoiceMode
from ferrule.core.event import FinishReason
from ferrule.core.json_text import canonical, loads
from ferrule.core.message import ChatMessage
from ferrule.core.receipt import How
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition

LONGEST_NAME = 128
"""As long as a tool's name can be; of a longer one that a model writes this much is kept."""
SHORT_HASH = 8
"""How much of a definition's fingerprint people are shown."""


class Fate(StrEnum):
    """What became of a call that a model wrote, before anything ran.

    HANDED_ON: as it was first written. REPAIRED: after its arguments were written again. REFUSED: it did not fit.
    CUT_OFF: the answer's budget ended inside it. NOT_OFFERED: it names something else.
    """

    HANDED_ON = "handed_on"
    REPAIRED = "repaired"
    REFUSED = "refused"
    CUT_OFF = "cut_off"
    NOT_OFFERED = "not_offered"


PICKED = frozenset({Fate.HANDED_ON, Fate.REPAIRED})
WRONG = frozenset({Fate.REPAIRED, Fate.REFUSED})


@dataclass(frozen=True, slots=True)
class Pick:
    """One call that a model wrote. `tool` is the one on offer that it names or is nearest to; empty where none is."""

    tool: str
    fate: Fate
    wrote: str
    """The name as the model wrote it."""
    number: int | None = None
    """Its place among the calls of the reply that are whole."""
    is_retried: bool = False
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """One reply. `is_required`: it had to call one of the tools on offer."""

    offered: tuple[ToolDefinition, ...]
    picks: tuple[Pick, ...] = ()
    is_required: bool = False

    @property
    def demanded(self) -> str:
        """The tool that had to be called, where there was no other; else empty."""
        return self.offered[0].name if self.is_required and len(self.offered) == 1 else ""

    @property
    def is_unanswered(self) -> bool:
        """A call was required and none was written."""
        return self.is_required and not self.picks


def selection_of(request: ToolCallRequest, reply: Reply) -> Selection | None:
    """What the reply chose; None where nothing was on offer."""
    offered = _on_offer(request)
    if not offered:
        return None
    names = [tool.name for tool in offered]
    written = [part for part in reply.parts if isinstance(part, ToolCall)]
    before = _Before.of(request.messages, {call.name for call in written})
    ends = reply.finish in (FinishReason.LENGTH, None)
    picks: list[Pick] = []
    whole = 0
    for left, call in zip(range(len(written) - 1, -1, -1), written, strict=True):
        fate = _fate(call, names, is_broken_off=ends and not left)
        tool = call.name if call.name in names else nearest(call.name, names)
        number = whole if call.complete else None
        whole += call.complete
        earlier = fate in PICKED and before.has(call)
        retried = fate in PICKED and before.failed.get(call.name, False)
        picks.append(Pick(tool, fate, call.name[:LONGEST_NAME], number, retried, earlier))
        before.add(call)
    return Selection(offered, tuple(picks), request.choice.mode is ChoiceMode.REQUIRED)


def nearest(wrote: str, names: Iterable[str]) -> str:
    """The name that looks most like what was written; empty where none looks like it."""
    spelled = {name.casefold(): name for name in names}
    found = get_close_matches(wrote[:LONGEST_NAME].casefold(), spelled, 1)
    return spelled[found[0]] if found else ""


def _on_offer(request: ToolCallRequest) -> tuple[ToolDefinition, ...]:
    """Looks back at what was asked, so a choice that names what is not there is no error any more."""
    choice = request.choice
    if choice.mode is ChoiceMode.NONE:
        return ()
    return tuple(tool for tool in request.tools if choice.names is None or tool.name in choice.names)


def _fate(call: ToolCall, names: list[str], *, is_broken_off: bool) -> Fate:
    if not call.complete and is_broken_off:
        return Fate.CUT_OFF
    if call.name not in names:
        return Fate.NOT_OFFERED
    if not call.complete:
        return Fate.REFUSED
    return Fate.REPAIRED if call.receipt is not None and call.receipt.how is How.REPAIRED else Fate.HANDED_ON


@dataclass(slots=True)
class _Before:
    """What a conversation holds of earlier calls of some tools. `failed`: whether a tool's last result was an error."""

    failed: dict[str, bool] = field(default_factory=dict[str, bool])
    _said: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    @staticmethod
    def of(messages: Iterable[ChatMessage], names: set[str]) -> _Before:
        made = _Before()
        if not names:
            return made
        ids: dict[str, str] = {}
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolCall) and part.name in names:
                    ids[part.id] = part.name
                    made.add(part)
                elif isinstance(part, ToolResult):
                    # Not every API says the name beside a result again.
                    made.failed[part.name or ids.get(part.tool_call_id, "")] = part.is_error
        return made

    def has(self, call: ToolCall) -> bool:
        return _said(call) in self._said

    def add(self, call: ToolCall) -> None:
        if call.complete:
            self._said.add(_said(call))


def _said(call: ToolCall) -> tuple[str, str]:
    """A call whatever the spelling of its arguments."""
    try:
        return call.name, canonical(loads(call.function.arguments))
    except ValueError:
        return call.name, call.function.arguments
