"""Read the query parameters that several APIs have in common: page sizes, search terms and times."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from ferrule.errors import DefinitionError, LedgerError
from ferrule.server.http import Request

MAX_TERM_LENGTH = 1_000
MAX_TIME = 1e300
"""Later than every time."""
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.ASCII)


def read_limit(request: Request, default: int, maximum: int) -> int:
    """Read the page size."""
    value = request.query.get("limit", str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 7 and 1 <= int(value) <= maximum):
        raise DefinitionError(
            f"limit: {value[:20]!r} is not a number from 1 to {maximum}", hint=f"Leave it out for {default}."
        )
    return int(value)


@contextmanager
def reported_cursor() -> Generator[None]:
    """Report a cursor that names nothing as an error of the parameter `after`."""
    try:
        yield
    except LedgerError as refusal:
        if refusal.code != "bad_cursor":
            raise
        raise DefinitionError(f"after: {refusal.message}", hint="Start without after.") from refusal


def read_terms(request: Request, *names: str, max_length: int = MAX_TERM_LENGTH) -> dict[str, str]:
    """Read search terms; empty where they are not given."""
    params = {name: request.query.get(name, "") for name in names}
    for name, value in params.items():
        if len(value) > max_length or "\x00" in value:
            raise DefinitionError(f"{name}: it is too long, or contains NUL", hint=f"At most {max_length} characters.")
    return params


def read_time(request: Request, name: str, default: float) -> float:
    """Read a time in Unix seconds."""
    value = request.query.get(name)
    if value is None:
        return default
    # Of three digits in the exponent not every number is finite.
    if not _NUMBER.fullmatch(value) or float(value) > MAX_TIME:
        raise DefinitionError(f"{name}: {value[:40]!r} is not a time", hint="Send Unix seconds, such as 1767225600.")
    return float(value)
