"""Describe an exception by types and stack frames only: no messages, no local variables, no source code."""

from __future__ import annotations

from collections.abc import Iterator

_MAX_FRAMES = 24
_MAX_CAUSES = 8


def error_types(error: BaseException) -> list[str]:
    """The classes of an exception and of its causes."""
    return [f"{type(one).__module__}.{type(one).__qualname__}" for one in _chain(error)]


def stack_frames(error: BaseException) -> list[str]:
    """The frames of the original exception as `module:line function`, innermost first."""
    *_, first = _chain(error)
    frames: list[str] = []
    trace = first.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return frames[::-1][:_MAX_FRAMES]


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
