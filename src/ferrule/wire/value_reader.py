"""Reading one value along the tape, in whatever notation the reader has."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.schema.reader import Reader
from ferrule.wire.open_call import OpenCall
from ferrule.wire.tape import MisfitError, Tape, Walk

REPEATED_KEY = "repeated_key"
# Arguments themselves are held to their schema, which no key can leave twice; what stands inside of them may be free.
ARGUMENTS_DEPTH = 1


def repeated_words(keys: Iterable[str]) -> str:
    named = ", ".join(f'"{key}"' for key in dict.fromkeys(keys))
    return f"{named} came again in the same object; the first stands"


def read_value(tape: Tape, reader: Reader, call: OpenCall | None) -> Walk[None]:
    """Drive a reader to its end; what it gives goes to the call as it comes, or stays in the reader."""
    while True:
        tape.at = reader.read(tape.text, tape.at, tape.ended)
        if call is not None:
            call.json(reader.take())
        if reader.is_done:
            if call is not None and reader.repeated:
                call.note(REPEATED_KEY, repeated_words(reader.repeated))
            return
        if reader.is_bad:
            raise MisfitError(reader.problem)
        if tape.ended:
            raise MisfitError("the text ends in a value")
        yield
