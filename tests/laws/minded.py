"""A model that has a whole answer in mind, and goes on with it wherever it is asked to."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ferrule.engines.generator import Ended, Piece, Writing
from ferrule.rules.matcher import ByteMatcher

PROMPT = "prompt: "


class Minded:
    """Writes on with one text, a few characters at a time, and stops as engines do: at the first stop that it wrote."""

    def __init__(self, text: str, size: int, *, checks: bool = False, prompt: str = PROMPT) -> None:
        self._text, self._size, self._checks, self._prompt = text, size, checks, prompt
        self.generated = 0
        self.requests = 0

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        self.requests += 1
        written = writing.prompt.removeprefix(self._prompt)
        assert self._text.startswith(written), "what was appended is not what the model would have written"
        left = self._text[len(written) :]
        if self._checks and writing.grammar is not None:
            assert ByteMatcher(writing.grammar.text).accepts(left), f"the rest of the rule refuses {left!r}"
        for at in range(self._size, len(left) + self._size, self._size):
            places = [(left[:at].find(stop), stop) for stop in writing.stop if stop in left[:at]]
            if places:
                end, stop = min(places)
                self.generated += at
                yield Piece(left[:end])
                yield Ended(False, 0, at, stopped_by=stop)
                return
        self.generated += len(left)
        yield Piece(left)
        yield Ended(False, 0, len(left))
