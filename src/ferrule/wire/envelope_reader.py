"""Parse the JSON object around a tool's name and arguments, with its keys in any order."""

from __future__ import annotations

from collections.abc import Callable

from ferrule.core.json_text import loads
from ferrule.schema.notation import JSON, JSON_BARE_KEYS, OBJECT, Notation
from ferrule.schema.reader import Reader
from ferrule.wire.node import Envelope, Slot
from ferrule.wire.open_call import OpenCall
from ferrule.wire.tape import MisfitError, Tape, Walk
from ferrule.wire.value_reader import ARGUMENTS_DEPTH, read_value

OnName = Callable[[str], None]

# Keys that models add to the envelope. {"type": "function", "function": {...}} is OpenAI's own shape.
_IGNORED_KEYS = ("type", "function", "id", "index", "call_id", "tool_call_id")
_NESTED = "function"


def read_envelope(tape: Tape, node: Envelope, call: OpenCall, on_name: OnName) -> Walk[None]:
    """Parse the object. Its first key must be an envelope key: otherwise it is other JSON, not a call."""
    slots = {key: entry.slot for entry in node.entries for key in (entry.key, *entry.also)}
    call.waits_for_id = node.has_id
    notation = JSON_BARE_KEYS if node.reads_bare_keys else JSON
    present = yield from _read_object(tape, slots, call, on_name, notation, is_inner=False)
    if Slot.NAME not in present:
        raise MisfitError("the object names no tool")
    if Slot.ARGUMENTS not in present:
        call.add_json("{}")


def _read_object(
    tape: Tape, slots: dict[str, Slot], call: OpenCall, on_name: OnName, notation: Notation, *, is_inner: bool
) -> Walk[set[Slot]]:
    yield from _expect(tape, "{")
    present: set[Slot] = set()
    allowed_keys = {*slots, *_IGNORED_KEYS}
    is_first = True
    while True:
        yield from tape.space()
        char = yield from tape.char()
        if char == "}":
            tape.at += 1
            return present
        if not is_first:
            yield from _expect(tape, ",")
            yield from tape.space()
        key = yield from _read_key(tape, allowed_keys if is_first and not is_inner else None, notation)
        yield from tape.space()
        yield from _expect(tape, ":")
        yield from tape.space()
        slot = slots.get(key)
        if slot in present:
            raise MisfitError(f"duplicate key {key!r}")
        if key == _NESTED and (yield from tape.char()) == "{":
            present |= yield from _read_object(tape, slots, call, on_name, notation, is_inner=True)
        else:
            yield from _read_slot(tape, key, slot, call, on_name, notation)
            if slot is not None:
                present.add(slot)
        is_first = False


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
    if (yield from tape.char()) != '"':
        raise MisfitError(f"{what} is not a string")
    reader = Reader(JSON)
    yield from read_value(tape, reader, None)
    return str(loads(reader.take()))
