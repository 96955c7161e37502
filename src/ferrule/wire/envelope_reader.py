"""Reading the JSON object around a name and its arguments, its keys in whatever order the model wrote them."""

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

# Keys that models add around what the envelope asks for. {"type": "function", "function": {...}} is OpenAI's own shape.
_PASSED_OVER = ("type", "function", "id", "index", "call_id", "tool_call_id")
_NESTED = "function"


def read_envelope(tape: Tape, node: Envelope, call: OpenCall, on_name: OnName) -> Walk[None]:
    """Read the object. The first key must be one that an envelope has: anything else is some other JSON."""
    slots = {key: entry.slot for entry in node.entries for key in (entry.key, *entry.also)}
    call.waits_for_id = node.has_id
    notation = JSON_BARE_KEYS if node.reads_bare_keys else JSON
    found = yield from _read_object(tape, slots, call, on_name, notation, is_inner=False)
    if Slot.NAME not in found:
        raise MisfitError("the object names no tool")
    if Slot.ARGUMENTS not in found:
        call.json("{}")


def _read_object(
    tape: Tape, slots: dict[str, Slot], call: OpenCall, on_name: OnName, notation: Notation, *, is_inner: bool
) -> Walk[set[Slot]]:
    yield from _expect(tape, "{")
    found: set[Slot] = set()
    known = {*slots, *_PASSED_OVER}
    is_first = True
    while True:
        yield from tape.space()
        char = yield from tape.char()
        if char == "}":
            tape.at += 1
            return found
        if not is_first:
            yield from _expect(tape, ",")
            yield from tape.space()
        key = yield from _read_key(tape, known if is_first and not is_inner else None, notation)
        yield from tape.space()
        yield from _expect(tape, ":")
        yield from tape.space()
        slot = slots.get(key)
        if slot in found:
            raise MisfitError(f"the key {key!r} is there twice")
        if key == _NESTED and (yield from tape.char()) == "{":
            found |= yield from _read_object(tape, slots, call, on_name, notation, is_inner=True)
        else:
            yield from _read_slot(tape, key, slot, call, on_name, notation)
            if slot is not None:
                found.add(slot)
        is_first = False


def _read_slot(
    tape: Tape, key: str, slot: Slot | None, call: OpenCall, on_name: OnName, notation: Notation
) -> Walk[None]:
    match slot:
        case Slot.NAME:
            on_name((yield from _read_text(tape, "the tool's name")))
        case Slot.ID:
            call.identified((yield from _read_text(tape, "the call's id")))
        case Slot.ARGUMENTS:
            yield from read_arguments(tape, call, notation)
        case _:
            reader = Reader(notation)
            yield from read_value(tape, reader, None)
            if key not in _PASSED_OVER:
                call.note("unknown_key", f"the call has a key {key!r} that means nothing here", reader.take())


def read_arguments(tape: Tape, call: OpenCall, notation: Notation = JSON) -> Walk[None]:
    """An object; or an object inside a JSON string, or null, which some models write instead."""
    char = yield from tape.char()
    if char == "{":
        tape.at += 1
        yield from read_value(tape, Reader(notation, OBJECT, ARGUMENTS_DEPTH), call)
        return
    reader = Reader(JSON)
    if char == '"':
        yield from read_value(tape, reader, None)
        call.json(_unwrapped(str(loads(reader.take()))))
    elif char == "n":
        yield from read_value(tape, reader, None)
        call.json("{}")
    else:
        raise MisfitError("the arguments are not an object")


def read_keyed(tape: Tape, call: OpenCall, on_name: OnName) -> Walk[None]:
    """An object whose only key is the tool's name."""
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


def _unwrapped(text: str) -> str:
    reader = Reader(JSON)
    at = reader.read(text, 0, True)
    if not reader.is_done or text[at:].strip() or not text.lstrip().startswith("{"):
        raise MisfitError("the arguments are a string that holds no object")
    return reader.take()


def _expect(tape: Tape, char: str) -> Walk[None]:
    if (yield from tape.char()) != char:
        raise MisfitError(f"expected {char!r}")
    tape.at += 1


def _read_key(tape: Tape, known: set[str] | None, notation: Notation) -> Walk[str]:
    """A key. When only some keys are possible, the first character that leads to none of them is enough to give up."""
    is_bare = notation.has_bare_keys and (yield from tape.char()) != '"'
    if known is not None:
        size = yield from tape.peek(tuple(key if is_bare else f'"{key}"' for key in known))
        if size < 0:
            raise MisfitError("the object is no call")
    return (yield from (tape.key() if is_bare else _read_text(tape, "a key")))


def _read_text(tape: Tape, what: str) -> Walk[str]:
    if (yield from tape.char()) != '"':
        raise MisfitError(f"{what} is not a string")
    reader = Reader(JSON)
    yield from read_value(tape, reader, None)
    return str(loads(reader.take()))
