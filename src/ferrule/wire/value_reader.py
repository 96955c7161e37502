"""Parse one value from the tape, in the notation of the given reader."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.schema.reader import Reader
from ferrule.wire.open_call import OpenCall
from ferrule.wire.tape import MisfitError, Tape, Walk

REPEATED_KEY = "repeated_key"
# A duplicate among the arguments themselves is an error, because the schema lists them. In objects inside an argument,
# which may be free-form, the first value wins and the duplicate is reported.
ARGUMENTS_DEPTH = 1


def repeated_keys_message(keys: Iterable[str]) -> str:
    names = ", ".join(f'"{key}"' for key in dict.fromkeys(keys))
    return f"duplicate key {names} in one object; the first value is used"


def read_value(tape: Tape, reader: Reader, call: OpenCall | None) -> Walk[None]:
    """Run a reader to the end of its value. With a call, its output goes to the call as it arrives."""
    while True:
        tape.at = reader.read(tape.text, tape.at, tape.ended)
        if call is not None:
            call.add_json(reader.take())
        if reader.is_done:
            if call is not None and reader.duplicate_keys:
                call.note(REPEATED_KEY, repeated_keys_message(reader.duplicate_keys))
            return
        if reader.is_bad:
            raise MisfitError(reader.problem)
        if tape.ended:
            raise MisfitError("the text ends in a value")
        yield
