"""Parse arguments that are written as one element each, with raw text as values.

A value ends only at its own closing marker. Opening markers and other closing markers inside it are text, so a value
cannot smuggle in another argument or another call. Strings stream as they arrive; a value whose type is only known at
its end is collected first.
"""

from __future__ import annotations

from ferrule.core.json_text import dumps, escape_text
from ferrule.schema.value_decoder import decode
from ferrule.wire.node import Fields, Kind, Lit, Node, Slot, Space
from ferrule.wire.open_call import REPEATED_KEY, OpenCall, repeated_keys_message
from ferrule.wire.parse_plan import first, first_of
from ferrule.wire.tape import MisfitError, Tape, Walk, stops_for
from ferrule.wire.tool_offer import ToolOffer

_STRING_ONLY = frozenset({"string"})


def read_fields(tape: Tape, node: Fields, call: OpenCall, rest: tuple[Node, ...], offer: ToolOffer) -> Walk[None]:
    """Parse elements until the text that follows them in the call; only then close the arguments object."""
    opener = first(node.field) or ()
    ending = first_of(rest) or ()
    duplicate = _last_spellings(node)
    sep = node.sep.canonical.strip()
    keys: set[str] = set()
    call.add_json("{")
    while True:
        yield from tape.space()
        if keys and sep and (yield from tape.peek((sep,))) > 0:
            tape.at += len(sep)
            yield from tape.space()
        if (yield from tape.peek(opener)) >= 0:
            yield from _Field(tape, node, call, keys, offer).read()
            continue
        if (yield from tape.peek(ending)) >= 0:
            break
        size = yield from tape.peek(duplicate)
        if size <= 0 or not keys:
            raise MisfitError("expected " + " or ".join(map(repr, (*opener[:1], *ending[:1]))))
        call.note("stray_mark", "duplicate closing marker", tape.text[tape.at : tape.at + size])
        tape.at += size
    call.add_json("}")


def _last_spellings(node: Fields) -> tuple[str, ...]:
    last = [part for part in node.field.parts if isinstance(part, Lit)][-1]
    return tuple(s.strip() for s in last.spellings)


class _Field:
    """One element while it is being parsed."""

    def __init__(self, tape: Tape, node: Fields, call: OpenCall, keys: set[str], offer: ToolOffer) -> None:
        self.tape, self.node, self.call, self.keys, self.offer = tape, node, call, keys, offer
        self.key = ""
        self.kind: Kind | None = None

    def read(self) -> Walk[None]:
        parts = self.node.field.parts
        skips_kind = False
        for place, part in enumerate(parts):
            rest = parts[place + 1 :]
            match part:
                case Lit():
                    size = yield from self.tape.peek(part.spellings)
                    if size < 0 and not part.may_be_missing:
                        raise MisfitError(f"expected {part.canonical!r}")
                    skips_kind = size < 0
                    self.tape.at += max(size, 0)
                case Space():
                    yield from self.tape.space()
                case Slot.KEY:
                    self.key = yield from self._until(rest, "an argument's name")
                case Slot.KIND if not skips_kind:
                    word = yield from self._until(rest, "an argument's kind")
                    self.kind = next((kind for kind in self.node.kinds if kind.word == word), None)
                case Slot.VALUE:
                    yield from self._value(rest)
                case _:
                    continue

    def _until(self, rest: tuple[Node, ...], what: str) -> Walk[str]:
        return (yield from self.tape.until(stops_for(first_of(rest) or ()), what))

    def _value(self, rest: tuple[Node, ...]) -> Walk[None]:
        if self.key in self.keys:
            raise MisfitError(f"duplicate argument {self.key!r}")
        allowed = self.offer.types(self.call.name, self.key)
        self.call.add_json((", " if self.keys else "") + dumps(self.key) + ": ")
        self.keys.add(self.key)
        closers = first_of(rest) or ()
        streams = self.kind.is_raw if self.kind else allowed == _STRING_ONLY
        quote = self.node.quote
        is_quoted = quote is not None and (yield from self.tape.peek((quote[0],))) > 0
        if quote is not None and is_quoted:
            self.tape.at += len(quote[0])
            closers = (quote[1],)
        raw = _CollectSink()
        yield from self._text(closers, _StreamSink(self.call) if streams else raw)
        if quote is not None and is_quoted:
            self.tape.at += len(quote[1])
        if not streams:
            self._decode(raw.text(), allowed)

    def _text(self, closers: tuple[str, ...], sink: _StreamSink | _CollectSink) -> Walk[None]:
        stops = stops_for(closers)
        tape = self.tape
        while True:
            hit = stops.scan(tape.text, tape.at, tape.ended)
            if hit.at > tape.at:
                sink.add(tape.text[tape.at : hit.at])
                tape.at = hit.at
            if hit.literal:
                sink.close()
                return
            if tape.ended:
                raise MisfitError(f"the text ends in the argument {self.key!r}")
            yield

    def _decode(self, raw: str, allowed: frozenset[str]) -> None:
        types = frozenset(self.kind.types) if self.kind and self.kind.types else allowed
        decoded = decode(raw, types, self.node.python_literals)
        if not decoded.ok:
            expected = " or ".join(sorted(types))
            message = f"the value of {self.key!r} is not {expected}; it is passed on as a string"
            self.call.note("undecodable_value", message)
        if decoded.duplicate_keys:
            self.call.note(REPEATED_KEY, repeated_keys_message(decoded.duplicate_keys))
        self.call.add_json(decoded.json_text)


class _StreamSink:
    """Emits a string value as it arrives."""

    def __init__(self, call: OpenCall) -> None:
        self._call = call
        call.add_json('"')

    def add(self, text: str) -> None:
        self._call.add_json(escape_text(text))

    def close(self) -> None:
        self._call.add_json('"')


class _CollectSink:
    """Collects a value whose type can only be decided when it is complete."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def close(self) -> None:
        return

    def text(self) -> str:
        return "".join(self._pieces)
