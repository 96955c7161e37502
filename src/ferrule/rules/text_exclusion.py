"""Without: text that contains none of some marks, as a plain regex. Must not know any target's grammar.

A matcher that is given "anything, but not containing a mark" has to prove, wherever a mark is nearly complete, that no
continuation is left, and gives up when the text is also counted. Spelled out, a mark that would be completed leads
nowhere at once, and text between marks is one class of characters, for which matchers have shortcuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Escape = Callable[[str], str]


def without(marks: Iterable[str], escape: Escape) -> str | None:
    """A regex for whole texts, or None where a mark has a first character again inside it, which needs the long way."""
    wanted = [mark for mark in marks if mark]
    firsts = "".join(sorted({mark[0] for mark in wanted}))
    if not wanted or any(char in firsts for mark in wanted for char in mark[1:]):
        return None
    plain = f"[^{escape(firsts)}]*"
    begun = "|".join(
        f"{escape(first)}{_broken_off([mark[1:] for mark in wanted if mark[0] == first], firsts, escape)}"
        for first in firsts
        if first not in wanted
    )
    return f"{plain}(?:{begun})*" if begun else plain


def _broken_off(tails: Sequence[str], firsts: str, escape: Escape) -> str:
    """What may follow the beginning of a mark up to the next such beginning: nothing, or text that leaves the mark."""
    nexts = "".join(sorted({tail[0] for tail in tails}))
    left = f"[^{escape(firsts + nexts)}][^{escape(firsts)}]*"
    on = [
        escape(char) + _broken_off([tail[1:] for tail in tails if tail[0] == char], firsts, escape)
        for char in nexts
        if char not in tails
    ]
    return f"(?:{'|'.join([*on, left])})?"
