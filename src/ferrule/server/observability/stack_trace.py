"""Where an error came from, without a word of what it says: kinds and places. No locals, no messages, no source."""

from __future__ import annotations

from collections.abc import Iterator

_MOST_FRAMES = 24
_MOST_CAUSES = 8


def kinds(error: BaseException) -> list[str]:
    """The classes of an error and of what it came from."""
    return [f"{type(one).__module__}.{type(one).__qualname__}" for one in _chain(error)]


def places(error: BaseException) -> list[str]:
    """`module:line function`, the innermost frame first, of the error that was first of its chain."""
    *_, first = _chain(error)
    found: list[str] = []
    trace = first.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return found[::-1][:_MOST_FRAMES]


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
