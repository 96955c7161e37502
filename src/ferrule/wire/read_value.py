"""Reading one value along the tape, in whatever notation the reader has."""

from __future__ import annotations

from ferrule.schema.reader import Reader
from ferrule.wire.opencall import OpenCall
from ferrule.wire.tape import MisfitError, Tape, Walk


def read_value(tape: Tape, reader: Reader, call: OpenCall | None) -> Walk[None]:
    """Drive a reader to its end; what it gives goes to the call as it comes, or stays in the reader."""
    while True:
        tape.at = reader.read(tape.text, tape.at, tape.ended)
        if call is not None:
            call.json(reader.take())
        if reader.is_done:
            return
        if reader.is_bad:
            raise MisfitError(reader.problem)
        if tape.ended:
            raise MisfitError("the text ends in a value")
        yield
