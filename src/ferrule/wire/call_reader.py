"""Parse one call: walk over the call's nodes along the tape.

`MisfitError` means that the text does not fit. The caller decides whether it is then prose or a malformed call.
"""

from __future__ import annotations

from collections.abc import Callable

from ferrule.core.json_text import loads
from ferrule.schema.notation import JSON, JSON_BARE_KEYS, OBJECT, Notation
from ferrule.schema.reader import Reader
from ferrule.wire.fields_reader import read_fields
from ferrule.wire.node import ID, Args, Calls, Envelope, Fields, HeaderId, Keyed, Lit, Node, Seq, Slot, Space
from ferrule.wire.open_call import ARGUMENTS_DEPTH, OpenCall, read_value
from ferrule.wire.parse_plan import first_of
from ferrule.wire.tape import MAX_NAME, DepthError, MisfitError, Tape, Walk, stops_for
from ferrule.wire.tool_offer import ToolOffer

OnName = Callable[[str], None]

# Keys that models add to the envelope. {"type": "function", "function": {...}} is OpenAI's own shape.
_IGNORED_KEYS = ("type", "function", "id", "index", "call_id", "tool_call_id")
_NESTED = "function"
MAX_ENVELOPE_DEPTH = 8
# Each character of a name may be written as an escape of six.
_MAX_QUOTED_NAME = 6 * MAX_NAME + 2


def read_envelope(tape: Tape, node: Envelope, call: OpenCall, on_name: OnName) -> Walk[None]:
    """Parse the object. Its first key must be an envelope key: otherwise it is other JSON, not a call."""
    slots = {key: entry.slot for entry in node.entries for key in (entry.key, *entry.also)}
    call.waits_for_id = node.has_id
    notation = JSON_BARE_KEYS if node.reads_bare_keys else JSON
    present = yield from _read_object(tape, slots, call, on_name, notation)
    if Slot.NAME not in present:
        raise MisfitError("the object names no tool")
    if Slot.ARGUMENTS not in present:
        call.add_json("{}")


def _read_object(
    tape: Tape, slots: dict[str, Slot], call: OpenCall, on_name: OnName, notation: Notation
) -> Walk[set[Slot]]:
    """Parse an object and the objects nested in it as one: each slot may occur once, at whatever depth.

    A slot that occurs twice would give two names, or arguments that are two objects in a row.
    """
    yield from _expect(tape, "{")
    present: set[Slot] = set()
    allowed_keys = {*slots, *_IGNORED_KEYS}
    depth = 1
    is_first = True
    while True:
        yield from tape.space()
        char = yield from tape.char()
        if char == "}":
            tape.at += 1
            depth -= 1
            if not depth:
                return present
            is_first = False
            continue
        if not is_first:
            yield from _expect(tape, ",")
            yield from tape.space()
        key = yield from _read_key(tape, allowed_keys if is_first and depth == 1 else None, notation)
        yield from tape.space()
        yield from _expect(tape, ":")
        yield from tape.space()
        slot = slots.get(key)
        if slot in present:
            raise MisfitError(f"duplicate key {key!r}")
        is_first = key == _NESTED and (yield from tape.char()) == "{"
        if is_first:
            if depth == MAX_ENVELOPE_DEPTH:
                raise DepthError(f"the call is nested deeper than {MAX_ENVELOPE_DEPTH} objects")
            tape.at += 1
            depth += 1
            continue
        yield from _read_slot(tape, key, slot, call, on_name, notation)
        if slot is not None:
            present.add(slot)


def _read_slot(
    tape: Tape, key: str, slot: Slot | None, call: OpenCall, on_name: OnName, notation: Notation
) -> Walk[None]:
    match slot:
        case Slot.NAME:
            on_name((yield from _read_text(tape, "the tool's name")))
        case Slot.ID:
            call.set_id((yield from _read_text(tape, "the call's id")))
        case Slot.ARGUMENTS:
            yield from read_arguments(tape, call, notation)
        case _:
            reader = Reader(notation)
            yield from read_value(tape, reader, None)
            if key not in _IGNORED_KEYS:
                call.note("unknown_key", f"the call has an unknown key {key!r}", reader.take())


def read_arguments(tape: Tape, call: OpenCall, notation: Notation = JSON) -> Walk[None]:
    """Parse the arguments: an object, or what some models write instead (an object inside a JSON string, or null)."""
    char = yield from tape.char()
    if char == "{":
        tape.at += 1
        yield from read_value(tape, Reader(notation, OBJECT, ARGUMENTS_DEPTH), call)
        return
    reader = Reader(JSON)
    if char == '"':
        yield from read_value(tape, reader, None)
        call.add_json(_unwrap_string(str(loads(reader.take()))))
    elif char == "n":
        yield from read_value(tape, reader, None)
        call.add_json("{}")
    else:
        raise MisfitError("the arguments are not an object")


def read_keyed(tape: Tape, call: OpenCall, on_name: OnName) -> Walk[None]:
    """Parse an object whose only key is the tool's name."""
    yield from _expect(tape, "{")
    yield from tape.space()
    name = yield from _read_text(tape, "the tool's name")
    yield from tape.space()
    yield from _expect(tape, ":")
    on_name(name)
    yield from tape.space()
    yield from read_arguments(tape, call)
    yield from tape.space()
    yield from _expect(tape, "}")


def _unwrap_string(text: str) -> str:
    reader = Reader(JSON)
    at = reader.read(text, 0, True)
    if not reader.is_done or text[at:].strip() or not text.lstrip().startswith("{"):
        raise MisfitError("the arguments are a string that contains no JSON object")
    return reader.take()


def _expect(tape: Tape, char: str) -> Walk[None]:
    if (yield from tape.char()) != char:
        raise MisfitError(f"expected {char!r}")
    tape.at += 1


def _read_key(tape: Tape, allowed_keys: set[str] | None, notation: Notation) -> Walk[str]:
    """Parse a key. With `allowed_keys`, fail at the first character that leads to none of them.

    Failing early keeps prose that begins with a brace from being held back.
    """
    is_bare = notation.has_bare_keys and (yield from tape.char()) != '"'
    if allowed_keys is not None:
        size = yield from tape.peek(tuple(key if is_bare else f'"{key}"' for key in allowed_keys))
        if size < 0:
            raise MisfitError("the object is not a call")
    return (yield from (tape.key() if is_bare else _read_text(tape, "a key")))


def _read_text(tape: Tape, what: str) -> Walk[str]:
    """Parse a JSON string of at most `MAX_NAME` characters. Of a longer one, a bounded part is consumed."""
    if (yield from tape.char()) != '"':
        raise MisfitError(f"{what} is not a string")
    reader = Reader(JSON)
    unread = _MAX_QUOTED_NAME
    while True:
        is_whole = len(tape.text) - tape.at <= unread
        size = reader.read(tape.text[tape.at : tape.at + unread], 0, is_whole and tape.ended)
        tape.at += size
        unread -= size
        if reader.is_done:
            text = str(loads(reader.take()))
            if len(text) > MAX_NAME:
                raise MisfitError(f"{what} is too long")
            return text
        if reader.is_bad:
            raise MisfitError(reader.problem)
        if not is_whole:
            raise MisfitError(f"{what} is too long")
        if tape.ended:
            raise MisfitError("the text ends in a value")
        yield


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
        return (yield from self.tape.until(stops_for(first_of(rest) or ()), "an id"))

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
