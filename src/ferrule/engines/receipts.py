"""Seal: checks each finished call and gives it its receipt. The last thing before a call is handed on, on any engine.

A call that does not fit its schema is not handed on: it ends as not complete, with a diagnostic that says what is wrong
in words that a model can act on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event
from ferrule.core.fault import Fault
from ferrule.core.json_text import loads
from ferrule.core.receipt import How, Receipt
from ferrule.core.tool import ToolDefinition
from ferrule.rules.claims import claims_of
from ferrule.schema.bounds import Bounds, reached
from ferrule.schema.checker import checker_for
from ferrule.wire.value_reader import REPEATED_KEY

NOT_OFFERED = "not_offered"
INVALID_ARGUMENTS = "invalid_arguments"
LET_GO = "the engine wrote what its grammar does not admit"


@dataclass(slots=True)
class Seal:
    """Passes events on; each `CallEnd` leaves with a receipt. `draft` is what is true of every call of the reply."""

    tools: Mapping[str, ToolDefinition]
    draft: Receipt
    encoding: str | None = None
    """How arguments were held while decoding; None where nothing held them."""
    bounds: Bounds | None = None
    is_held: bool = True
    """Whether the engine has kept to its grammar so far; where it has not, nothing is claimed of it."""
    seconds: float = 0.0
    tokens: int = 0
    skipped: int = 0
    _names: dict[int, str] = field(default_factory=dict[int, str])
    _json: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    _odd: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    def passed(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case CallStart(index, _, name):
                    self._names[index], self._json[index], self._odd[index] = name, [], []
                case ArgumentsDelta(index, json):
                    self._json[index].append(json)
                case Diagnostic(code, message, index=int(index)) if code == REPEATED_KEY and index in self._odd:
                    self._odd[index].append(message)
                case CallEnd(index, True):
                    yield from self._sealed(index)
                    continue
                case CallEnd(index, False):
                    yield replace(event, receipt=self._receipt(index, How.REFUSED))
                    continue
                case _:
                    pass
            yield event

    def arguments(self, index: int) -> str:
        """The arguments of a call as far as they have come."""
        return "".join(self._json[index])

    def faults(self, index: int) -> tuple[Fault, ...]:
        """What is wrong with a call."""
        tool = self.tools.get(self._names[index])
        if tool is None:
            offered = ", ".join(self.tools) or "nothing"
            return (Fault("", NOT_OFFERED, f"{self._names[index]!r} is not offered; offered: {offered}"),)
        return checker_for(tool.parameters).faults_of_text(self.arguments(index))

    def _sealed(self, index: int) -> Iterator[Event]:
        faults = self.faults(index)
        if not faults:
            yield CallEnd(index, receipt=self._receipt(index, self.draft.how if self.is_held else How.VALIDATED))
            return
        code = NOT_OFFERED if faults[0].keyword == NOT_OFFERED else INVALID_ARGUMENTS
        yield Diagnostic(code, "; ".join(map(str, faults)), index=index)
        yield CallEnd(index, complete=False, receipt=self._receipt(index, How.REFUSED))

    def _receipt(self, index: int, how: How) -> Receipt:
        tool = self.tools.get(self._names[index])
        claims = claims_of(tool, self.encoding if self.is_held else None) if tool else None
        notes = (*self.draft.notes, *self._odd[index], *(() if self.is_held else (LET_GO,)))
        if how is not How.REFUSED and self.bounds and reached(loads(self.arguments(index)), self.bounds):
            notes = (*notes, f"something in it is as long as the rule lets it be ({self.bounds})")
        taken = {"seconds": round(self.seconds, 3), "tokens": self.tokens, "skipped": self.skipped}
        said = replace(self.draft, how=how, notes=notes, **taken)
        if claims is None:
            return said
        return replace(said, enforced=claims.enforced, checked=claims.checked, unchecked=claims.unchecked)
