"""Repetition suffixes, which are the same in all grammar languages."""

from __future__ import annotations

_SHORTHAND: dict[tuple[int, int | None], str] = {(0, 1): "?", (0, None): "*", (1, None): "+", (1, 1): ""}


def quantifier(at_least: int, at_most: int | None) -> str:
    """The suffix for a repetition, such as `*` or `{2,3}`. None means no upper bound."""
    shorthand = _SHORTHAND.get((at_least, at_most))
    return f"{{{at_least},{'' if at_most is None else at_most}}}" if shorthand is None else shorthand
