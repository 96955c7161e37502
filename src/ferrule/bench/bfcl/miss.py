"""Why a reply is not right, as a value."""

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """The first thing that was found wrong."""

    COUNT = "wrong count"
    FUNCTION = "wrong function"
    MISSING = "missing parameter"
    UNEXPECTED = "unexpected parameter"
    TYPE = "type"
    VALUE = "value"
    UNREADABLE = "unreadable arguments"
    CALLED = "a call"
    NOT_CALLED = "no call"
    REFUSED = "not answered"
    """The engine, or Ferrule before it, refused the request."""


@dataclass(frozen=True, slots=True)
class Miss:
    """The reason, and the function or parameter that it is about."""

    reason: Reason
    where: str = ""
