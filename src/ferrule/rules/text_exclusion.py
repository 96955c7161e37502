"""A plain regex for text that contains none of some markers. It does not depend on any target's grammar.

With the regex "anything that does not contain a marker", a matcher has to prove, wherever a marker is nearly complete,
that no continuation is left. It gives up if the text is counted as well. In the explicit regex, a character that would
complete a marker fails at once, and text between markers is one character class, for which matchers have shortcuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Escape = Callable[[str], str]


def text_excluding(markers: Iterable[str], escape: Escape) -> str | None:
    """A regex for whole texts without the markers.

    Returns None if the first character of a marker also occurs later in a marker. That case needs a real automaton.
    """
    nonempty = [marker for marker in markers if marker]
    firsts = "".join(sorted({marker[0] for marker in nonempty}))
    if not nonempty or any(char in firsts for marker in nonempty for char in marker[1:]):
        return None
    other_text = f"[^{escape(firsts)}]*"
    after_prefix = "|".join(
        f"{escape(first)}{_after_prefix([marker[1:] for marker in nonempty if marker[0] == first], firsts, escape)}"
        for first in firsts
        if first not in nonempty
    )
    return f"{other_text}(?:{after_prefix})*" if after_prefix else other_text


def _after_prefix(tails: Sequence[str], firsts: str, escape: Escape) -> str:
    """A regex for what may follow a marker's prefix, up to the next first character: nothing, or diverging text."""
    nexts = "".join(sorted({tail[0] for tail in tails}))
    diverged = f"[^{escape(firsts + nexts)}][^{escape(firsts)}]*"
    continued = [
        escape(char) + _after_prefix([tail[1:] for tail in tails if tail[0] == char], firsts, escape)
        for char in nexts
        if char not in tails
    ]
    return f"(?:{'|'.join([*continued, diverged])})?"
