"""How the grammar languages write a repetition: they all write it the same way."""

from __future__ import annotations

_KNOWN: dict[tuple[int, int | None], str] = {(0, 1): "?", (0, None): "*", (1, None): "+", (1, 1): ""}


def times(at_least: int, at_most: int | None) -> str:
    """What stands behind something that may be repeated; None is no upper bound."""
    known = _KNOWN.get((at_least, at_most))
    return f"{{{at_least},{'' if at_most is None else at_most}}}" if known is None else known
