"""Parse one call: walk over the call's nodes along the tape.

`MisfitError` means that the text does not fit. The caller decides whether it is then prose or a malformed call.
"""

from __future__ import annotations

from ferrule.schema.reader import Reader
from ferrule.wire.envelope_reader import read_envelope, read_keyed
from ferrule.wire.fields_reader import read_fields
from ferrule.wire.node import ID, Args, Calls, Envelope, Fields, HeaderId, Keyed, Lit, Node, Seq, Slot, Space
from ferrule.wire.open_call import OpenCall
from ferrule.wire.parse_plan import first_of
from ferrule.wire.stops import Stops
from ferrule.wire.tape import MAX_NAME, MisfitError, Tape, Walk
from ferrule.wire.tool_offer import ToolOffer
from ferrule.wire.value_reader import ARGUMENTS_DEPTH, read_value


class CallReader:
    """Parses the calls of one reply. All calls share the parser's tape and tools."""

    __slots__ = ("offer", "tape")

    def __init__(self, tape: Tape, offer: ToolOffer) -> None:
        self.tape = tape
        self.offer = offer

    def read(self, item: Calls, call: OpenCall) -> Walk[None]:
        parts = item.call.parts if isinstance(item.call, Seq) else (item.call,)
        call.waits_for_id = ID in parts
        for place, node in enumerate(parts):
            yield from self._node(node, call, item, parts[place + 1 :])

    def _node(self, node: Node, call: OpenCall, item: Calls, rest: tuple[Node, ...]) -> Walk[None]:
        match node:
            case Lit():
                yield from self._literal(node, call)
            case Space():
                yield from self.tape.space()
            case Slot.NAME:
                name = yield from self.tape.name()
                yield from self._before(rest)
                self._name(name, call, item)
            case Slot.ID:
                call.set_id((yield from self._id(rest)))
            case HeaderId():
                yield from self._header(node, call, item, rest)
            case Args():
                yield from self._arguments(node, call)
            case Envelope():
                yield from read_envelope(self.tape, node, call, lambda name: self._name(name, call, item))
            case Keyed():
                yield from read_keyed(self.tape, call, lambda name: self._name(name, call, item))
            case Fields():
                yield from read_fields(self.tape, node, call, rest, self.offer)
            case _:
                raise MisfitError("a call cannot contain this node")

    def _literal(self, node: Lit, call: OpenCall) -> Walk[None]:
        size = yield from self.tape.peek(node.spellings)
        if size >= 0:
            self.tape.at += size
        elif node.may_be_missing:
            call.note("missing_mark", f"{node.canonical!r} is missing")
        else:
            raise MisfitError(f"expected {node.canonical!r}")

    def _before(self, rest: tuple[Node, ...]) -> Walk[None]:
        """Check what follows a name. White space is skipped, unless the next literal itself begins with it."""
        starts = first_of(rest) or ()
        if not starts:
            return
        size = yield from self.tape.peek(starts)
        if size < 0:
            yield from self.tape.space()
            size = yield from self.tape.peek(starts)
        if size < 0:
            raise MisfitError("unexpected text after the tool's name")

    def _name(self, name: str, call: OpenCall, item: Calls) -> None:
        if not name.strip():
            raise MisfitError("the tool's name is empty")
        if item.only_offered and name not in self.offer:
            raise MisfitError(f"{name!r} is not an offered tool")
        call.set_name(name)

    def _id(self, rest: tuple[Node, ...]) -> Walk[str]:
        stops = Stops(first_of(rest) or ())
        tape = self.tape
        while True:
            hit = stops.scan(tape.text, tape.at, tape.ended)
            if hit.at - tape.at > MAX_NAME:
                raise MisfitError("the id is too long")
            if hit.literal:
                id = tape.text[tape.at : hit.at]
                tape.at = hit.at
                return id
            if tape.ended:
                raise MisfitError("the text ends in an id")
            yield

    def _header(self, node: HeaderId, call: OpenCall, item: Calls, rest: tuple[Node, ...]) -> Walk[None]:
        header = yield from self._id(rest)
        name, sep, count = header.strip().rpartition(node.sep)
        if not sep or not (count.isascii() and count.isdigit()):
            raise MisfitError("the header contains no tool name")
        call.id = header.strip()
        self._name(name.removeprefix(node.prefix), call, item)

    def _arguments(self, node: Args, call: OpenCall) -> Walk[None]:
        tape = self.tape
        yield from tape.space()
        if (yield from tape.char()) != node.opener:
            raise MisfitError(f"arguments begin with {node.opener!r}")
        tape.at += 1
        reader = Reader(node.notation, node.root, ARGUMENTS_DEPTH)
        yield from read_value(tape, reader, call)
