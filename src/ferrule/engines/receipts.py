"""ReceiptWriter: checks each finished call and attaches its receipt. The last step of every engine.

A call that does not match its schema is refused: its `CallEnd` is not complete, and a diagnostic explains the problem
in a way that a model can act on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ferrule.core.call import FunctionCall, How, Receipt
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event
from ferrule.core.fault import Fault
from ferrule.core.request import ToolCallRequest, canonical_call
from ferrule.core.tool import ToolDefinition
from ferrule.rules.call_check import argument_text_faults
from ferrule.rules.claims import Claims, claims_of
from ferrule.rules.text_grammar import admit_grammar
from ferrule.wire.open_call import REPEATED_KEY

NOT_OFFERED = "not_offered"
INVALID_ARGUMENTS = "invalid_arguments"
REPEATED_CALL = "repeated_call"
GRAMMAR_NOT_FOLLOWED = "the engine wrote text that its grammar does not allow"


def call_faults(
    tools: Mapping[str, ToolDefinition], name: str, arguments: str, excluded: Sequence[FunctionCall] = ()
) -> tuple[Fault, ...]:
    """Return what is wrong with a call of one of these tools; empty if it is valid. `excluded` calls are not."""
    tool = tools.get(name)
    if tool is None:
        return (Fault("", NOT_OFFERED, f"{name!r} is not offered; offered: {', '.join(tools) or 'nothing'}"),)
    call = canonical_call(FunctionCall(name, arguments)) if excluded else None
    if call is not None and any(canonical_call(one) == call for one in excluded):
        return (Fault("", REPEATED_CALL, f"{name!r} was called with these arguments before, again and again"),)
    return argument_text_faults(tool, arguments)


def ignored_notes(request: ToolCallRequest, dropped: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the note about what was asked for and not carried out. `dropped` are fields that the engine lacks."""
    names = (*request.ignored, *dropped)
    return (f"ignored: {', '.join(names)}",) if names else ()


@dataclass(slots=True)
class ReceiptWriter:
    """Passes events through and adds a receipt to each `CallEnd`. `draft` is what all calls of a reply share."""

    tools: Mapping[str, ToolDefinition]
    draft: Receipt
    encoding: str | None = None
    """How the grammar constrained the arguments; None if there was no grammar."""
    drifted: Mapping[int, str] = field(default_factory=dict[int, str])
    """Calls that were read out of free text, by index (`wire.drift`). No grammar held them."""
    lost_grammars: frozenset[str] = frozenset()
    """The custom tools whose own grammar the engine's grammar does not hold."""
    excluded: Sequence[FunctionCall] = ()
    """Calls that may not be made again. No grammar excludes them, except where a tool has no other call."""
    follows_grammar: bool = True
    """Whether the engine has followed its grammar so far. If not, receipts claim no enforcement."""
    seconds: float = 0.0
    tokens: int = 0
    skipped: int = 0
    _names: dict[int, str] = field(default_factory=dict[int, str])
    _json: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    _repeated_keys: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    def __post_init__(self) -> None:
        # A grammar that cannot be used is refused before anything is generated.
        for tool in self.tools.values():
            admit_grammar(tool)

    def add_receipts(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case CallStart(index, _, name):
                    self._names[index], self._json[index], self._repeated_keys[index] = name, [], []
                case ArgumentsDelta(index, json):
                    self._json[index].append(json)
                case Diagnostic(code, message, index=int(index)) if (
                    code == REPEATED_KEY and index in self._repeated_keys
                ):
                    self._repeated_keys[index].append(message)
                case CallEnd(index, True):
                    yield from self._end_call(index)
                    continue
                case CallEnd(index, False):
                    yield replace(event, receipt=self._receipt(index, How.REFUSED))
                    continue
                case _:
                    pass
            yield event

    def is_certain(self, name: str) -> bool:
        """Whether a call of this tool can only be valid, because the grammar expresses all of its schema."""
        tool = self.tools.get(name)
        if self.may_repeat(name):
            return False
        return tool is not None and self.encoding is not None and not self._claims(tool, self.encoding).checked

    def may_repeat(self, name: str) -> bool:
        """Whether a call of this tool may be one of the excluded calls."""
        return any(call.name == name for call in self.excluded)

    def arguments(self, index: int) -> str:
        """The arguments of a call, as far as they have arrived."""
        return "".join(self._json[index])

    def faults(self, index: int) -> tuple[Fault, ...]:
        """Return what is wrong with a call; empty if it is valid."""
        return call_faults(self.tools, self._names[index], self.arguments(index), self.excluded)

    def accept(self, index: int) -> CallEnd:
        """The end of a call that has no faults, with its receipt."""
        is_lost = self.draft.how is How.GRAMMAR and not self._holds(index)
        return CallEnd(index, receipt=self._receipt(index, How.VALIDATED if is_lost else self.draft.how))

    def _end_call(self, index: int) -> Iterator[Event]:
        faults = self.faults(index)
        if not faults:
            yield self.accept(index)
            return
        code = faults[0].keyword if faults[0].keyword in (NOT_OFFERED, REPEATED_CALL) else INVALID_ARGUMENTS
        yield Diagnostic(code, "; ".join(map(str, faults)), index=index)
        yield CallEnd(index, complete=False, receipt=self._receipt(index, How.REFUSED))

    def _holds(self, index: int) -> bool:
        """Whether the grammar, if there is one, held the arguments of this call."""
        return self.follows_grammar and index not in self.drifted

    def _claims(self, tool: ToolDefinition, encoding: str | None) -> Claims:
        return claims_of(tool, encoding, holds_grammar=tool.name not in self.lost_grammars)

    def _receipt(self, index: int, how: How) -> Receipt:
        tool = self.tools.get(self._names[index])
        claims = self._claims(tool, self.encoding if self._holds(index) else None) if tool else None
        notes = (
            *self.draft.notes,
            *self._repeated_keys[index],
            *(() if self.follows_grammar else (GRAMMAR_NOT_FOLLOWED,)),
        )
        cost = {"seconds": round(self.seconds, 3), "tokens": self.tokens, "skipped": self.skipped}
        receipt = replace(self.draft, how=how, notes=notes, drifted=self.drifted.get(index, ""), **cost)
        if claims is None:
            return receipt
        return replace(receipt, enforced=claims.enforced, checked=claims.checked, unchecked=claims.unchecked)
